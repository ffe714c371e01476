"""The command line: what it refuses, and that it does what it says."""

import os
from pathlib import Path

import pytest

from clock_harness import build, cli
from hotplug_common import needs as preflight
from hotplug_host.errors import ExitCode

CPU = str(min(os.sched_getaffinity(0)))
needs_compiler = pytest.mark.skipif(
    any(preflight.find(need) is None for need in build.NEEDS), reason="no C compiler"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "required: COMMAND"),
        (["shared", "--threads", "1,x"], "'1,x' is not a list of numbers above 0"),
        (["devices", "--devices", "16,0"], "'16,0' is not a list of numbers above 0"),
        (["shared", "--latency", "0"], "'0' is not a whole number of at least 1"),
        (["percpu", "--rounds", "-1"], "'-1' is not a whole number of at least 1"),
        (["check", "--cpus", "99999"], "no such CPU: 99999"),
        (["devices", "--cpus", "99999"], "no such CPU: 99999"),
        (["devices", "--cpus", CPU], "one CPU has no other one"),
        (
            ["percpu", "--together", "--cpus", CPU, "--threads", "1,2"],
            "2 threads cannot run together on 1 CPUs",
        ),
    ],
)
def test_wrong_arguments_end_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("clock-harness: error: ")
    assert complaint in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("command", ["shared", "percpu"])
def test_measuring_prints_a_table_and_keeps_each_run(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "runs.jsonl"
    arguments = ["--threads", "1,2", "--cpus", CPU, "--ms", "20", "--rounds", "2", "--json", str(kept)]
    assert cli.main([command, *(["--latency", "500"] if command == "shared" else []), *arguments]) == 0
    shown = capsys.readouterr().out
    assert "medians of 2 runs of 20 ms" in shown
    algorithms = 3 if command == "shared" else 4
    assert len(kept.read_text().splitlines()) == 2 * 2 * algorithms


@pytest.mark.slow
@needs_compiler
def test_checking_looks_at_every_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--threads", "2", "--cpus", CPU, "--ms", "20", "--rounds", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 7


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("line", ["6.12", "7.3"])
def test_devices_are_told_the_rate(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The program fails when a device does not know the new rate."""
    words = ["devices", "--line", line, "--devices", "3,5", "--rounds", "4", "--cpus", f"{CPU},{CPU}"]
    assert cli.main(words) == 0
    _, head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["devices", "used", "by"]
    assert [row.split()[:4] for row in rows] == [
        [count, "the", "same", "CPU"] for count in ("3", "3", "5", "5")
    ]
