"""Results of clock-check: documented, held to the schema, and read by `compare` and `report`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import hotplug_timer.cli
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.compare.comparison import compare
from hotplug_timer.reader import read_files
from hotplug_timer.schema import CLOCK_CHECK_1, RESULT
from hotplug_timer.upgrade import from_clock_check
from tests import GOLDEN
from tests.fakes.fakeclocks import replies, write_probe

#: Results of real runs, of the version before.
EXAMPLES = GOLDEN / "results-v2/clock-check"
OLD_SCHEMA = CLOCK_CHECK_1.read()
Record = dict[str, Any]
Run = Callable[..., tuple[int, str, str]]


def write(path: Path, lines: list[Record]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def old_example(name: str) -> list[Record]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text().splitlines()]


def example(name: str) -> list[Record]:
    return [from_clock_check(line) for line in old_example(name)]


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(OLD_SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["scale", "order", "drift", "pstates"])
@pytest.mark.parametrize("bend", [{}, {"violations": 1, "jump_ns": 10_000_000}, {"moved": True}])
def test_what_is_written_fits_the_schema_and_is_read(
    host: Any, run: Run, tmp_path: Path, *, command: str, bend: dict[str, Any]
) -> None:
    host.add_cpufreq()
    output = tmp_path / "out.jsonl"
    run(
        command,
        f"--probe={write_probe(tmp_path / 'p', replies(**bend))}",
        f"--output={output}",
        "--variant=x",
    )
    whole = Draft202012Validator(RESULT.read())
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    for line in lines:
        whole.validate(line)
    (data,) = read_files([output]).runs
    assert data.variant == "x"
    assert data.clocksource == "tsc"
    assert len(data.iterations) == sum(line["record"] == "iteration" for line in lines)
    assert data.restored is True


def test_what_real_runs_wrote_fits_the_schema() -> None:
    whole = Draft202012Validator(OLD_SCHEMA)
    names = sorted(path.name for path in EXAMPLES.glob("*.jsonl"))
    assert names == ["drift.jsonl", "order.jsonl", "scale.jsonl"]
    for name in names:
        for line in old_example(name):
            whole.validate(line)
        for line in example(name):
            Draft202012Validator(RESULT.read()).validate(line)


@pytest.mark.slow
def test_report_takes_them(tmp_path: Path) -> None:
    files = [str(path) for path in sorted(EXAMPLES.glob("*.jsonl"))]
    arguments = ["report", *files, "--baseline=tsc", "--line=6.12", f"--output-dir={tmp_path}"]
    assert hotplug_timer.cli.main(arguments) == ExitCode.OK
    page = (tmp_path / "report.html").read_text()
    assert "<h1>Clock checks: " in page
    assert "scale/vdso/2-threads" in page
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(summary["variants"]["tsc"]["scale/vdso/2-threads_s"]) == 6


def test_mixed_with_results_of_switches_they_are_told_apart(tmp_path: Path) -> None:
    switch = GOLDEN / "results-v2/demo"
    data = read_files([EXAMPLES / "scale.jsonl", next(switch.glob("*stock*.jsonl"))])
    assert {run.clocksource for run in data.runs} >= {"tsc", None}


def test_one_variant_for_two_clocksources_is_warned_of(tmp_path: Path) -> None:
    lines = [
        {**line, "variant": "both"} if line["record"] == "run" else line for line in example("scale.jsonl")
    ]
    data = read_files([write(tmp_path / "out", lines)])
    names = " and ".join(sorted({str(run.clocksource) for run in data.runs}))
    warnings = [text for text in compare(data, "both").warnings if "clocksources" in text]
    assert len(warnings) == 1, names
    assert warnings[0].endswith("give each clocksource a --variant of its own")


def test_a_failed_check_is_left_out_and_named(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    probe = write_probe(tmp_path / "p", replies(violations=2))
    run("order", "--path=vdso", f"--probe={probe}", f"--output={output}")
    good = tmp_path / "good.jsonl"
    run("order", "--path=vdso", f"--probe={write_probe(tmp_path / 'q', replies())}", f"--output={good}")
    comparison = compare(read_files([output, good]), "tsc")
    assert len(comparison.rows) == 1
    assert len(comparison.rows[0].seconds) == 1
    assert (
        "timed iteration 1 failed and is left out: 2 of 10000000 calls returned less" in comparison.notices[0]
    )


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        ({"schema": "result/4"}, "written for schema result/4, newer than result/3"),
        ({"schema": "result/2"}, "schema 'result/2' is not result/3"),
        ({"schema": "clock-check/x"}, "schema 'clock-check/x' is not"),
        ({"operation": "scale/vdso/0-threads"}, "operation: "),
        ({"operation": "smt=off"}, "operation: "),
        ({"phase": "counted"}, "phase: "),
        ({"status": "interrupted", "error": "x"}, "status: "),
        ({"tool": "hotplug-timer"}, "detail: "),
        ({"seconds": 0}, "seconds: "),
        ({"seconds": None}, "seconds: "),
        ({"status": "failed"}, "error: None is not of type 'string'"),
        ({"detail": {"scale": {}}}, "detail.scale: "),
        ({"colour": "red"}, "'colour' was unexpected"),
    ],
)
def test_lines_that_break_the_schema_are_named(tmp_path: Path, bend: Record, words: str) -> None:
    refused(tmp_path, example("scale.jsonl")[:2], bend, words)


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        ({"schema": "clock-check/2"}, "written for schema clock-check/2, newer than clock-check/1"),
        ({"operation": "scale/vdso/0-threads"}, "operation: "),
        ({"operation": "smt=off"}, "operation: "),
        ({"seconds": 0}, "seconds: "),
        ({"seconds": None}, "seconds: "),
        ({"status": "failed"}, "error: None is not of type 'string'"),
        ({"scale": {}}, "scale: "),
        ({"colour": "red"}, "'colour' was unexpected"),
    ],
)
def test_lines_that_break_the_schema_of_their_version_are_named(
    tmp_path: Path, bend: Record, words: str
) -> None:
    refused(tmp_path, old_example("scale.jsonl")[:2], bend, words)


def refused(folder: Path, good: list[Record], bend: Record, words: str) -> None:
    read_files([write(folder / "good", good)])
    with pytest.raises(ToolError) as caught:
        read_files([write(folder / "out", [good[0], {**good[1], **bend}])])
    assert caught.value.code == ExitCode.INPUT
    assert "out:2: " in str(caught.value)
    assert words in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_bent_in_any_way_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([example, old_example]))
    lines = version(data.draw(st.sampled_from(["scale.jsonl", "order.jsonl", "drift.jsonl"])))[:3]
    at = data.draw(st.integers(0, len(lines) - 1))
    target: Any = lines[at]
    # Down to any depth: a field of a field of the line.
    while True:
        key = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
        below = target[key]
        if not (isinstance(below, (dict, list)) and below and data.draw(st.booleans())):
            break
        target = below
    target[key] = data.draw(JSON)
    try:
        read_files([write(tmp_path / "bent", lines)])
    except ToolError as error:
        assert error.code == ExitCode.INPUT
