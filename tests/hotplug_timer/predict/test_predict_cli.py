"""`predict` as it is called."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from hotplug_common.tables import significant
from hotplug_host.errors import ExitCode
from hotplug_timer import cli
from hotplug_timer.predict import outlook, plot
from hotplug_timer.predict.plot import readable
from tests import ROOT
from tests.samples.resultfiles import STOCK_COUNTS, records, write

EXAMPLE = sorted(map(str, (ROOT / "docs/examples/demo").glob("*.jsonl")))
PUBLISHED = str(ROOT / "tools/hotplug-timer/hotplug_timer/data/published-timings.csv")


def predict(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert cli.main(["predict", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = predict(capsys, *EXAMPLE, "--cpus", "1920")
    lines = out.splitlines()
    assert lines[0] == (
        "1920 CPUs, predicted from timings of 16 CPUs, emulated CPUs: seconds are not hardware's;"
        " lower is better"
    )
    assert re.match(r"operation +variant +CPUs switched +predicted \(s, emulated\) +95% interval", lines[1])
    assert [line.split()[:3] for line in lines[2:6]] == [
        ["smt=off", "stock", "1680"],
        ["smt=on", "stock", "1680"],
        ["smt=off", "patched", "1680"],
        ["smt=on", "patched", "1680"],
    ]
    assert "hotplug-timer: warning: all counted: 1920 CPUs are 120.0 times the largest" in err


def test_formats_agree(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(predict(capsys, *EXAMPLE, "--cpus", "128", "--format", "json")[0])
    rows = list(csv.DictReader(io.StringIO(predict(capsys, *EXAMPLE, "--cpus", "128", "--format", "csv")[0])))
    markdown, _ = predict(capsys, *EXAMPLE, "--cpus", "128", "--format", "markdown")
    assert [float(row["seconds"]) for row in rows] == [entry["seconds"] for entry in content["predictions"]]
    for entry in content["predictions"]:
        assert entry["interval_low_s"] < entry["seconds"] < entry["interval_high_s"]
        assert (entry["cpus"], entry["toggled"], entry["emulated"], entry["counted"]) == (
            128,
            112,
            True,
            True,
        )
        assert (
            f"| {entry['operation']} | {entry['variant']} | 112 | {significant(entry['seconds'], 2)} |"
            in markdown
        )
    assert len(content["warnings"]) > 3
    assert {price["words"] for price in content["prices"]} >= {"grace periods", "rendezvous"}


def test_documented_json_keys_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(predict(capsys, *EXAMPLE, "--cpus", "128", "--format", "json")[0])
    page = (ROOT / "docs/guides/kernel-developers/predict.md").read_text("utf-8")
    paragraph = re.search(r"In JSON the.*?\n\n", page, re.DOTALL)
    assert paragraph
    names = set(re.findall(r"`(\w+)`", paragraph[0]))
    assert names <= set(content) | set(content["predictions"][0])


@pytest.mark.slow
@pytest.mark.parametrize("style", ["table", "markdown", "csv", "json"])
def test_validation_prints_errors(capsys: pytest.CaptureFixture[str], style: str) -> None:
    out, err = predict(capsys, PUBLISHED, "--validate", "--format", style)
    assert "not checked: smt=off lock-hoist: only timed on machines of 400 CPUs" in err
    if style == "json":
        checks = json.loads(out)["checks"]
        assert all(check["error"] == check["predicted_s"] / check["measured_s"] - 1 for check in checks)
    elif style == "csv":
        assert len(list(csv.DictReader(io.StringIO(out)))) == 36
    else:
        assert "31 of 36 measured times are in the interval" in out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "start"), [("x.svg", b"<?xml"), ("x.png", b"\x89PNG")])
def test_a_picture_is_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, start: bytes
) -> None:
    picture = tmp_path / name
    predict(capsys, *EXAMPLE, "--cpus", "32", "--plot", str(picture))
    data = picture.read_bytes()
    assert data.startswith(start)
    if name.endswith("svg"):
        assert all(word in data for word in (b">stock<", b">patched<", b"smt=off: measured", b"(emulated)"))


def test_variants_are_text_in_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "a", records("r1", "<b>$x$&", [2.0], counts=STOCK_COUNTS))
    predict(capsys, str(path), "--cpus", "20", "--plot", str(tmp_path / "a.svg"))
    assert "&lt;b&gt;$x$&amp;" in (tmp_path / "a.svg").read_text("utf-8")


@pytest.mark.parametrize("command", [["compare"], ["predict", "--cpus", "20"]])
def test_variants_are_text_in_a_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    path = write(tmp_path / "a", records("r1", "[/b][red]|", [2.0], counts=STOCK_COUNTS))
    assert cli.main([*command, str(path)]) == 0
    assert "[/b][red]|" in capsys.readouterr().out


def test_what_was_odd_about_the_files_is_noted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "a", records("r1", "stock", [2.0], counts=STOCK_COUNTS)[:-1], tail='{"rec')
    _, err = predict(capsys, str(path), "--cpus", "20")
    assert "note: " in err
    assert "the last line is cut short and was left out" in err
    assert "the run's end is missing" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([PUBLISHED, "--cpus=1"], ExitCode.USAGE, "--cpus 1: nothing can be switched there; name 2 or more"),
        ([PUBLISHED, "--cpus=9", "--chunk=0"], ExitCode.USAGE, "--chunk: '0' is not a whole number of at"),
        (
            [PUBLISHED, "--cpus=9", "--plot=x.pdf"],
            ExitCode.USAGE,
            "--plot x.pdf: not a picture this can draw;",
        ),
        ([PUBLISHED, "--validate", "--plot=x.svg"], ExitCode.USAGE, "--plot and --toggled go with --cpus;"),
        (
            [PUBLISHED, *EXAMPLE, "--cpus=9"],
            ExitCode.INPUT,
            "some of these timings are emulated and some are not",
        ),
        ([*EXAMPLE, "--validate"], ExitCode.INPUT, "no variant was timed on machines of two sizes"),
        (["gone.csv", "--cpus=9"], ExitCode.INPUT, "gone.csv: cannot be read: No such file or directory;"),
        (
            [*EXAMPLE, "--cpus=9", "--plot=/nonexistent/x.svg"],
            ExitCode.ENVIRONMENT,
            "cannot write /nonexistent/x.svg: No such file or directory; name another --plot",
        ),
    ],
)
def test_faults_are_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: ExitCode, words: str
) -> None:
    _, err = predict(capsys, *arguments, code=code)
    faults = [line for line in err.splitlines() if line.startswith("hotplug-timer: error: ")]
    assert len(faults) == 1
    assert words in faults[0]


@pytest.mark.parametrize("arguments", [[], ["--cpus=9", "--validate"], ["--cpus=many"]])
def test_what_is_wanted_has_to_be_said(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert cli.main(["predict", PUBLISHED, *arguments]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("value", "number", "text"),
    [(0, 3, "0"), (3629999, 3, "3630000"), (0.00514, 3, "0.00514"), (87, 3, "87.0"), (9.96, 2, "10.0")],
)
def test_digits_that_count(value: float, number: int, text: str) -> None:
    assert significant(value, number) == text


def test_the_predicted_size_is_on_the_axis_and_what_would_run_into_it_is_not() -> None:
    assert readable([1920, 128, 128, 400, 1536, 2048]) == [128, 400, 1920]


@pytest.mark.parametrize(
    "refused",
    [
        ("gone/x.svg", ExitCode.ENVIRONMENT, "No such file or directory; name another --plot"),
        ("file/x.svg", ExitCode.ENVIRONMENT, "Not a directory; name another --plot"),
        ("folder.svg", ExitCode.ENVIRONMENT, "Is a directory; name another --plot"),
        ("x.pdf", ExitCode.USAGE, "not a picture this can draw"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_fit(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: tuple[str, ExitCode, str],
) -> None:
    name, code, words = refused
    fitted: list[object] = []
    monkeypatch.setattr(outlook, "look_out", lambda *arguments: fitted.append(arguments))
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.svg").mkdir()
    out, err = predict(capsys, *EXAMPLE, "--cpus", "32", "--plot", str(tmp_path / name), code=code)
    assert (fitted, out) == ([], "")
    assert words in err


def test_a_check_of_the_picture_leaves_what_is_there(tmp_path: Path) -> None:
    old = tmp_path / "old.svg"
    old.write_text("a picture")
    plot.check_path(old)
    plot.check_path(tmp_path / "new.svg")
    assert (old.read_text(), list(tmp_path.iterdir())) == ("a picture", [old])
