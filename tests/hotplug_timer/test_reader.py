import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.compare.comparison import compare
from hotplug_timer.reader import read_files
from tests.samples import resultfiles
from tests.samples.resultfiles import Record, iteration, records, run_record, write


def refused(path: Path, *words: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_files([path])
    assert caught.value.code == ExitCode.INPUT
    for word in words:
        assert word in str(caught.value)


def test_reads_runs_in_time_order(tmp_path: Path) -> None:
    late = write(tmp_path / "late", records("r2", "patched", [0.3], minute=9))
    early = write(tmp_path / "early", records("r1", "stock", [2.0, 2.1], [1.0], minute=1))
    data = read_files([late, early])
    assert [run.variant for run in data.runs] == ["stock", "patched"]
    assert [item.seconds for item in data.runs[0].iterations] == [2.0, 2.1, 1.0]
    assert data.runs[0].shape.cpus == 16
    assert data.runs[0].outcome == "complete"
    assert data.notices == ()
    assert data.raw == late.read_text() + early.read_text()


def test_last_line_cut_short_is_tolerated_with_a_notice(tmp_path: Path) -> None:
    path = write(tmp_path / "out", records("r1", "stock", [2.0])[:-1], tail='{"record":"itera')
    data = read_files([path])
    assert data.notices == (f"{path}:3: the last line is cut short and was left out",)
    assert len(data.runs[0].iterations) == 1
    assert data.runs[0].outcome is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "out: holds no results"),
        ('{"record":"run"', "out: holds no results"),
        ("hello\n", "out:1: not a JSON object"),
        ("[" * 100_000 + "\n", "out:1: not a JSON object"),
        ("x" * (2 << 20) + "\n", "out:1: longer than 1048576 bytes"),
        ('{"record":"run","schema":"hotplug-timer/\u00b2"}\n', "out:1: schema 'hotplug-timer/\u00b2' is not"),
        ("[1]\n", "out:1: not a JSON object"),
        ('{"x":1}\n', "out:1: not a record"),
        ('{"record":"run","schema":"kcidb/4"}\n', "out:1: schema 'kcidb/4' is not result/3"),
        ('{"record":"run"}\n', "out:1: schema 'None'"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    refused(path, words)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "missing", "cannot read", "No such file")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\n")
    refused(tmp_path / "binary", "line 1 is not text")


def test_a_newer_schema_is_refused_as_newer(tmp_path: Path) -> None:
    path = write(tmp_path / "out", [{**run_record(), "schema": "result/4"}])
    refused(path, "out:1: written for schema result/4, newer than result/3; read it with")


@pytest.mark.parametrize("operation", ["cpus=1-127:off", "cpus=1,3-5:on", "cores-on=4", "cores-on=all"])
def test_operations_on_cpus_and_cores_are_read(tmp_path: Path, operation: str) -> None:
    record = iteration("r1", 1, operation, 2.0, path="per-cpu", driver="cpu-online")
    data = read_files([write(tmp_path / "out", [run_record(), record])])
    assert data.runs[0].iterations[0].operation == operation


def test_invalid_iterations_are_read_and_left_out(tmp_path: Path) -> None:
    invalid = iteration(
        "r1", 2, "smt=off", 9.0, status="invalid", path=None, error="the machine changed: present CPUs were"
    )
    path = write(tmp_path / "out", [run_record(), iteration("r1", 1, "smt=off", 2.0), invalid])
    comparison = compare(read_files([path]), "stock")
    assert [row.seconds for row in comparison.rows] == [(2.0,)]
    left_out = f"{path}: stock smt=off timed iteration 2 invalid and is left out: the machine changed"
    assert comparison.notices[0].startswith(left_out)


def _without(name: str) -> Callable[[Record], Record]:
    return lambda record: {key: value for key, value in record.items() if key != name}


def _detail(**changes: object) -> Callable[[Record], Record]:
    return lambda record: {**record, "detail": {**record["detail"], **changes}}


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        (_without("seconds"), "'seconds' is a required property"),
        (_without("tool"), "'tool' is a required property"),
        (lambda r: {**r, "seconds": "2"}, "seconds: "),
        (lambda r: {**r, "seconds": -1.0}, "seconds: "),
        (lambda r: {**r, "seconds": float("nan")}, "not a JSON object"),
        (lambda r: {**r, "seconds": 10**400}, "seconds: an enormous number is not a time"),
        (lambda r: {**r, "seconds": 1e-300}, "seconds: 1e-300 is not a time"),
        (lambda r: {**r, "index": 10**30}, "index: an enormous number is more than"),
        (lambda r: {**r, "operation": "smt=off\n"}, "operation: "),
        (lambda r: {**r, "seconds": None}, "seconds: None is not of type 'number'"),
        (
            lambda r: _detail(counts=dict(resultfiles.STOCK_COUNTS))({**r, "phase": "counted"}),
            "seconds: 2.0 is not of type 'null'",
        ),
        (lambda r: {**r, "operation": "smt=max"}, "operation: "),
        (lambda r: {**r, "operation": "scale/vdso/1-thread"}, "operation: "),
        (_detail(cpus_after="0-"), "detail.cpus_after: "),
        (_detail(cpus_after="0,4,8"), "says ok, but cpus_after is not cpus_expected"),
        (lambda r: {**r, "error": "it failed"}, "error: "),
        (lambda r: {**r, "status": "failed"}, "error: None is not of type 'string'"),
        (_detail(path=None), "detail.path: "),
        (_detail(counts=dict(resultfiles.STOCK_COUNTS)), "detail.counts: "),
        (_detail(direction="up"), "detail.direction: "),
        (_detail(direction=None), "detail.switched: 0 was expected"),
        (_detail(switched=0), "detail.switched: 0 is less than the minimum of 1"),
        (_detail(colour="red"), "'colour' was unexpected"),
        (lambda r: {**r, "colour": "red"}, "'colour' was unexpected"),
        (lambda r: {**r, "run_id": "r9"}, "belongs to run r9, whose record is not above it"),
    ],
)
def test_lines_that_break_the_schema_are_named(
    tmp_path: Path, bend: Callable[[Record], Record], words: str
) -> None:
    good = [run_record(), iteration("r1", 1, "smt=off", 2.0)]
    read_files([write(tmp_path / "good", good)])
    refused(write(tmp_path / "out", [good[0], bend(good[1])]), "out:2: ", words)


def test_a_run_read_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "out", records("r1", "stock", [2.0]))
    with pytest.raises(ToolError, match=r"run r1 was read already, .*; name it once"):
        read_files([path, path])


@pytest.mark.parametrize("at", [1, 2, -2, -1])
def test_a_line_that_is_there_twice_is_refused(tmp_path: Path, at: int) -> None:
    """Its sample would count twice."""
    lines = records("r1", "stock", [2.0, 2.1], [1.0], counts=resultfiles.STOCK_COUNTS)
    path = write(tmp_path / "out", [*lines, lines[at]])
    refused(path, f"{path}:7: ", "run r1", "already")


def test_a_copy_under_another_name_is_refused(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0])
    first, second = write(tmp_path / "a", lines), write(tmp_path / "b", lines)
    with pytest.raises(ToolError, match=rf"{second}:1: run r1 was read already, from {first}; name it once"):
        read_files([first, second])
    # The rest of a run alone is no way past that.
    with pytest.raises(ToolError, match=rf"{second}:1: belongs to run r1, whose record is not above it"):
        read_files([first, write(second, lines[1:])])


def test_iterations_may_come_in_any_order(tmp_path: Path) -> None:
    order = [3, 1, 5, 2]
    lines = [run_record(), *(iteration("r1", at, "smt=off", float(at)) for at in order)]
    path = write(tmp_path / "out", lines)
    assert [item.index for item in read_files([path]).runs[0].iterations] == order
    for at in order:
        write(path, [*lines, iteration("r1", at, "smt=off", 1.0)])
        refused(path, f"out:6: smt=off timed iteration {at} of run r1 was read already; give each line once")


@given(
    st.lists(st.floats(0.001, 1e4), min_size=1, max_size=8),
    st.text(min_size=1, max_size=12).filter(str.strip),
    st.integers(0, 200),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_prefix_of_a_file_reads_as_its_whole_lines(
    tmp_path: Path, seconds: list[float], variant: str, cut: int
) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records("r1", variant, seconds))
    path = tmp_path / "out"
    path.write_text(text[: max(len(text) - cut, text.index("\n") + 1)])
    whole = path.read_text().count("\n")
    data = read_files([path])
    assert [item.seconds for item in data.runs[0].iterations] == seconds[: whole - 1]
    assert bool(data.notices) == (not path.read_text().endswith("\n"))


@given(st.binary(max_size=60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_other_bytes_are_refused_never_a_crash(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "out"
    path.write_bytes(data)
    with pytest.raises(ToolError):
        read_files([path])


def test_a_number_too_large_for_floating_point_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "out", [run_record(), iteration("r1", 1, "smt=off", 2.0)])
    path.write_text(path.read_text().replace('"seconds": 2.0', '"seconds": 1e400'))
    refused(path, "out:2: seconds: inf is not a time")


def test_iterations_are_a_sequence(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0, 2.1], [1.0], counts=resultfiles.STOCK_COUNTS)
    items = read_files([write(tmp_path / "out", lines)]).runs[0].iterations
    assert len(items) == 4
    assert items[-1] == items[3] == list(items)[3]
    assert (items[-1].counts, items[-1].seconds) == (resultfiles.STOCK_COUNTS, None)
    assert [item.seconds for item in items[1:3]] == [2.1, 1.0]
    assert items.seconds(lambda kind: kind.operation == "smt=off").tolist() == [2.0, 2.1]
    with pytest.raises(IndexError):
        items[4]


def test_lines_are_kept_for_the_report_until_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "out", records("r1", "stock", [2.0]))
    assert read_files([path]).raw == path.read_text()
    monkeypatch.setattr("hotplug_timer.reader.MAX_RAW", 100)
    assert read_files([path]).raw is None


@pytest.mark.slow
def test_a_long_file_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is what stays and the most there was: both far below the file's size."""
    monkeypatch.setattr("hotplug_timer.reader.MAX_RAW", 0)
    path = write(tmp_path / "out", records("r1", "stock", [2.0 + at / 1e6 for at in range(2_000)]))
    read_files([path])
    tracemalloc.start()
    data = read_files([path])
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data.runs[0].iterations) == 2_000
    assert kept < 2_000 * 40
    assert peak < path.stat().st_size / 4


def test_a_copy_of_a_run_under_another_id_is_refused(tmp_path: Path) -> None:
    """Its boot would look twice as sure. The time of the run tells, or that of its first iteration."""
    first = write(tmp_path / "first", records("r1", "stock", [2.0, 2.1], boot_id="one"))
    copy = records("r2", "stock", [2.0, 2.1], boot_id="one")
    path = write(tmp_path / "copy", copy)
    with pytest.raises(ToolError, match=rf"{path}:1: run r2 is a copy of run r1 in {first}: .*; give each"):
        read_files([first, path])
    copy[0]["started"] = "2026-11-21T08:00:00.000Z"
    with pytest.raises(ToolError, match=rf"{write(path, copy)}:2: run r2 is a copy of run r1"):
        read_files([first, path])
    other = write(tmp_path / "other", records("r3", "patched", [2.0, 2.1], minute=3, boot_id="one"))
    assert len(read_files([first, other]).runs) == 2
