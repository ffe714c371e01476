"""Timings from result files and from CSV."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotplug_common.timings import OPTIONAL, REQUIRED, Counts, Timing, read_timings
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.predict.data import from_results
from hotplug_timer.reader import read_files
from tests.samples.resultfiles import STOCK_COUNTS, Record, iteration, records, write

HEADER = "source,kernel,system,cpus,toggled,direction,variant,seconds"
GOOD = "lkml,v6.12,POWER10,400,350,off,stock,75"
COUNTED = f"{HEADER},grace_periods,expedited,rendezvous,rebuilds"


def results(tmp_path: Path, *runs: list[Record]) -> list[Timing]:
    return from_results(read_files([write(tmp_path / f"{at}.jsonl", lines) for at, lines in enumerate(runs)]))


def table(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "timings.csv"
    path.write_text("".join(f"{line}\n" for line in (header, *lines)), "utf-8")
    return path


def larger(lines: list[Record]) -> list[Record]:
    """The run, on 8 cores x SMT8."""
    lines[0]["topology"] |= {"possible": "0-63", "present": "0-63", "online": "0-63", "cores": 8}
    first = ",".join(str(cpu) for cpu in range(0, 64, 8))
    for line in lines[1:-1]:
        ends = (first, "0-63") if line["operation"] == "smt=on" else ("0-63", first)
        line["detail"] |= {"cpus_before": ends[0], "cpus_after": ends[1], "cpus_expected": ends[1]}
        line["detail"]["switched"] = 56
    return lines


def test_runs_become_one_timing_for_each_size_operation_and_variant(tmp_path: Path) -> None:
    found = results(
        tmp_path,
        records("r1", "stock", [2.0, 3.0, 2.2], [1.0], counts=STOCK_COUNTS),
        larger(records("r2", "stock", [50.0], [6.0])),
        records("r3", "stock", [2.1, 2.3], minute=5),
    )
    assert [
        (item.operation, item.direction, item.cpus, item.toggled, item.seconds, item.n) for item in found
    ] == [
        ("smt=off", "off", 16, 14, 2.2, 5),
        ("smt=on", "on", 16, 14, 1.0, 1),
        ("smt=off", "off", 64, 56, 50.0, 1),
        ("smt=on", "on", 64, 56, 6.0, 1),
    ]
    assert [item.counts for item in found] == [Counts(14, 29, 0, 14, 14), None, None, None]
    assert found[0].error == pytest.approx(0.394 / 5**0.5 / 2.2, rel=0.01)
    assert found[1].error == 0


@pytest.mark.parametrize(
    ("rcu", "counts", "expected"),
    [
        ({}, STOCK_COUNTS, (29, 0)),
        ({"rcu_expedited": "0"}, STOCK_COUNTS, (29, 0)),
        ({"rcu_expedited": "1"}, STOCK_COUNTS, (0, 29)),
        ({"rcu_expedited": "1"}, {**STOCK_COUNTS, "synchronize_rcu_expedited": 4}, (25, 4)),
        ({}, {**STOCK_COUNTS, "synchronize_rcu_expedited": 31}, (0, 31)),
    ],
)
def test_expedited_grace_periods_are_told_from_the_others(
    tmp_path: Path, rcu: dict[str, str], counts: dict[str, int], expected: tuple[int, int]
) -> None:
    lines = records("r1", "stock", [2.0], counts=counts)
    lines[0]["rcu"] = rcu
    (found,) = results(tmp_path, lines)
    assert found.counts is not None
    assert (found.counts.grace_periods, found.counts.expedited) == expected


@pytest.mark.parametrize(("text", "base"), [("", 1), ("1", 1), ("3", 3), ("0", None), ("10", None)])
def test_the_first_wait_is_the_kernels_own_or_somebodys(tmp_path: Path, text: str, base: int | None) -> None:
    lines = records("r1", "stock", [2.0])
    lines[0]["rcu"] = {"jiffies_till_first_fqs": text} if text else {}
    assert results(tmp_path, lines)[0].fqs_base == base


def test_an_smt_level_goes_the_way_most_cpus_go(tmp_path: Path) -> None:
    lines = records("r1", "stock", [])
    ends = {"cpus_before": "0-15", "cpus_after": "0-3,8-11", "cpus_expected": "0-3,8-11"}
    lines[1:1] = [iteration("r1", 1, "smt=4", 1.5, **ends)]
    lines[0]["settings"]["operations"] = ["smt=4"]
    (found,) = results(tmp_path, lines)
    assert (found.direction, found.toggled, found.operation) == ("off", 8, "smt=4")


def test_runs_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    one = records("r1", "stock", [2.0])
    for other, words in (
        (records("r2", "stock", [2.0], machine="x86_64"), "different architectures (ppc64le, x86_64)"),
        (records("r2", "stock", [2.0], emulated=False), "some of these runs are emulated"),
    ):
        with pytest.raises(ToolError) as caught:
            results(tmp_path, one, other)
        assert caught.value.code == ExitCode.INPUT
        assert words in str(caught.value)


def test_runs_without_a_timed_iteration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no timed iteration succeeded"):
        results(tmp_path, records("r1", "stock", [], counts=STOCK_COUNTS))


def test_lines_that_differ_in_seconds_alone_are_repetitions(tmp_path: Path) -> None:
    found = read_timings(
        table(tmp_path, GOOD, GOOD.replace("75", "77"), GOOD.replace("v6.12", ""), header=HEADER)
    )
    assert [(item.kernel, item.seconds, item.n) for item in found] == [("v6.12", 76, 2), ("", 75, 1)]
    assert found[0].operation == "smt=off"
    assert not found[0].emulated


def test_counts_and_emulation_are_optional(tmp_path: Path) -> None:
    path = table(tmp_path, f"{GOOD},701,1,350,350,yes", f"{GOOD},,,,,yes", header=f"{COUNTED},emulated")
    first, second = read_timings(path)
    assert first.counts == Counts(350, 700, 1, 350, 350)
    assert second.counts is None
    assert first.emulated


@pytest.mark.parametrize(
    ("lines", "header", "words"),
    [
        ([], HEADER, "timings.csv: holds no timings"),
        ([GOOD], HEADER.replace(",variant", ""), "the first line lacks variant"),
        ([f"{GOOD},1"], f"{HEADER},colour", "has columns nobody knows: ['colour']"),
        ([GOOD, f"{GOOD},1"], HEADER, "timings.csv:3: has more or fewer fields"),
        (["lkml,v6.12"], HEADER, "timings.csv:2: has more or fewer fields"),
        ([GOOD.replace("400", "4e2")], HEADER, "timings.csv:2: cpus: '4e2' is not a whole number from 2"),
        ([GOOD.replace("400", "\N{ARABIC-INDIC DIGIT FOUR}00")], HEADER, "is not a whole number"),
        ([GOOD.replace("400", "1")], HEADER, "cpus: '1' is not a whole number from 2"),
        ([GOOD.replace("350", "0")], HEADER, "toggled: '0' is not a whole number from 1"),
        ([GOOD.replace("350", "400")], HEADER, "toggled: 400 of 400 CPUs leaves none online"),
        ([GOOD.replace("off", "down")], HEADER, "direction: 'down' is neither off nor on"),
        ([GOOD.replace("stock", "")], HEADER, "variant: is empty"),
        ([GOOD.replace("75", "nan")], HEADER, "seconds: 'nan' is not a time above 0"),
        ([GOOD.replace("75", "-1")], HEADER, "seconds: '-1' is not a time above 0"),
        ([GOOD.replace("75", "")], HEADER, "seconds: '' is not a time above 0"),
        ([f"{GOOD},1,,1,1"], COUNTED, "has grace_periods, rendezvous, rebuilds and not all of"),
        ([f"{GOOD},maybe"], f"{HEADER},emulated", "emulated: 'maybe' is neither yes nor no"),
        ([f"{GOOD},yes", f"{GOOD},no"], f"{HEADER},emulated", "mixes emulated seconds and those of hardware"),
        ([f'"{GOOD}'], HEADER, "is not a CSV file"),
    ],
)
def test_a_table_that_is_wrong_is_refused_and_says_where(
    tmp_path: Path, lines: list[str], header: str, words: str
) -> None:
    with pytest.raises(ToolError) as caught:
        read_timings(table(tmp_path, *lines, header=header))
    assert caught.value.code == ExitCode.INPUT
    assert words in str(caught.value)


def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be read: No such file"):
        read_timings(tmp_path / "gone.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ToolError, match="is not a CSV file"):
        read_timings(tmp_path / "binary.csv")


@given(st.text(max_size=80))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_other_text_is_refused_never_a_crash(tmp_path: Path, text: str) -> None:
    path = tmp_path / "timings.csv"
    path.write_bytes(f"{HEADER}\n{text}\n".encode("utf-8", "surrogatepass"))
    with pytest.raises(ToolError):
        read_timings(path)


_WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)


@given(
    st.lists(
        st.tuples(_WORDS, _WORDS, st.integers(2, 4096), st.floats(1e-3, 1e5), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_read(tmp_path: Path, rows: list[tuple[str, str, int, float, bool]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow((*REQUIRED, *OPTIONAL))
    for at, (source, kernel, cpus, seconds, counted) in enumerate(rows):
        counts = (2, 1, 1, 1) if counted else ("",) * 4
        writer.writerow((source, kernel, "", cpus, 1, "on", f"v{at}", seconds, *counts, "no"))
    path = tmp_path / "timings.csv"
    path.write_text(buffer.getvalue(), "utf-8", newline="")
    found = read_timings(path)
    assert [(item.kernel, item.cpus, item.seconds, item.counts is not None) for item in found] == [
        (kernel.strip(), cpus, seconds, counted) for _, kernel, cpus, seconds, counted in rows
    ]
