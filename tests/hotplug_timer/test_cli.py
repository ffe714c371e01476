import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from hotplug_timer import cli
from hotplug_timer.manual.commands import describe
from tests.fakes.fakehost import FakeHost
from tests.samples.resultfiles import records, write


@pytest.mark.parametrize("command", [one.name for one in describe(cli.build_parser())])
def test_help_has_examples_that_parse(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command.split()[1:], "--help"]) == 0
    text = capsys.readouterr().out.partition("examples:")[2].replace("\\\n", " ")
    examples = re.findall(r"^\s*hotplug-timer (.+)$", text, re.MULTILINE)
    assert examples
    for example in examples:
        words = itertools.takewhile(lambda word: word not in ("|", ">"), shlex.split(example))
        cli.build_parser().parse_args(list(words))


def test_compare_prints_to_stdout_and_warns_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stock = write(tmp_path / "stock", records("r1", "stock", [2.0, 2.1, 2.2, 2.3], boot_method="firmware"))
    again = write(tmp_path / "again", records("r3", "stock", [2.0, 2.1, 2.2, 2.3], boot_method="firmware"))
    patched = [
        write(tmp_path / run, records(run, "patched", [1.0, 1.1, 1.2, 1.3], minute=2)) for run in ("r2", "r4")
    ]
    files = map(str, [stock, again, *patched])
    assert cli.main(["compare", *files, "--format", "json"]) == ExitCode.OK
    captured = capsys.readouterr()
    assert json.loads(captured.out)["comparisons"][1]["verdict"] == "faster"
    assert captured.err.startswith("hotplug-timer: warning: different boot methods are mixed")


def test_report_names_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stock = write(tmp_path / "stock", records("r1", "stock", [2.0]))
    out = tmp_path / "out"
    assert cli.main(["report", str(stock), "--output-dir", str(out), "--line", "6.12"]) == ExitCode.OK
    assert capsys.readouterr().out.split() == [str(out / "report.html"), str(out / "summary.json")]


def test_bundle_names_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.pyz"
    assert cli.main(["bundle", "-o", str(path)]) == ExitCode.OK
    assert capsys.readouterr().out == f"{path}\n"
    assert path.stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["compare", "/nonexistent"], 4, r"cannot read /nonexistent: No such file or directory; .*"),
        (
            ["run", "smt=max", "--variant=a", "--iterations=1", "--output=x"],
            2,
            r"unknown operation 'smt=max'; .*",
        ),
    ],
)
def test_faults_are_one_line_and_an_exit_code(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"hotplug-timer: error: {line}\n", captured.err)


def test_ctrl_c_outside_a_run_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hotplug_timer.reader.read_files", interrupt)
    assert cli.main(["compare", "x"]) == ExitCode.INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err


def test_run_does_not_load_the_analysis(host: FakeHost, tmp_path: Path) -> None:
    code = (
        "import sys; from hotplug_timer import cli; cli.build_parser();"
        " sys.exit(any(name in sys.modules for name in ('scipy', 'matplotlib', 'numpy', 'rich')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_not_root_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    output = tmp_path / "x"
    assert cli.main(["run", "smt=off", "--variant=a", "--iterations=1", f"--output={output}"]) == 3
    assert "needs root" in capsys.readouterr().err
    assert not output.exists()
