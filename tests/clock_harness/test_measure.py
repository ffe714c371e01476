"""Runs of the harness program, by a program that only plays it; and the tables made of them."""

import json
from pathlib import Path

import pytest

from clock_harness import measure, table
from clock_harness.measure import Cell, Counter, Harness, Sample
from hotplug_common.tables import to_text
from hotplug_host.errors import ExitCode, ToolError

COUNTER = Counter(1000)
# Two threads, 1 ms, 200 calls: 10 us a call. They had half a CPU.
OUTPUT = {
    "algorithm": "combined",
    "threads": 2,
    "latency_ns": 1000,
    "serial": True,
    "calls": 200,
    "ns": 1_000_000,
    "cpu_ns": 500_000,
    "least_calls": 80,
    "most_calls": 120,
}


def sample(algorithm: str = "combined", threads: int = 2, calls: int = 200, **more: int) -> Sample:
    return Sample(**(OUTPUT | {"algorithm": algorithm, "threads": threads, "calls": calls} | more))


def fake_program(folder: Path, script: str) -> Path:
    program = folder / "clock-harness"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_a_call_takes_the_thread_that_makes_it_its_share_of_the_run() -> None:
    assert sample().us_per_call == pytest.approx(10)
    assert sample().cpu_us_per_call == pytest.approx(2.5)
    assert sample().fairness == pytest.approx(80 / 120)


def test_threads_that_never_got_to_run_divide_nothing_by_zero() -> None:
    starved = sample(calls=0, least_calls=0, most_calls=0)
    assert starved.us_per_call == float("inf")
    assert starved.fairness == 0


def test_the_median_of_the_rounds_counts() -> None:
    cell = Cell("combined", 2, [sample(calls=calls) for calls in (100, 200, 5)])
    assert cell.us_per_call == pytest.approx(20)


def test_the_program_is_told_what_to_do(tmp_path: Path) -> None:
    output = json.dumps(OUTPUT)
    program = fake_program(tmp_path, f"echo \"$@\" > '{tmp_path}/arguments'; echo '{output}'")
    harness = Harness(program, (2, 3), 300)
    assert harness.check("combined", 8, Counter(500, serial=False, bits=24)) == sample()
    told = (tmp_path / "arguments").read_text().split()
    assert told == ["check", "combined", "8", "2,3", "500", "parallel", "24", "300"]


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    program = fake_program(
        tmp_path, "echo 'clock-harness: cannot pin a thread: Invalid argument' >&2; exit 1"
    )
    with pytest.raises(ToolError, match="cannot pin a thread") as caught:
        Harness(program, (2,), 1).measure("plain", 1, COUNTER)
    assert caught.value.code == ExitCode.OPERATION


def test_rounds_take_turns(tmp_path: Path) -> None:
    output = json.dumps(OUTPUT)
    program = fake_program(tmp_path, f"echo \"$2 $3\" >> '{tmp_path}/runs'; echo '{output}'")
    cells = measure.rounds(Harness(program, (0,), 1).measure, ("a", "b"), (1, 2), COUNTER, count=2)
    runs = (tmp_path / "runs").read_text().splitlines()
    assert runs == [f"{algorithm} {threads}" for threads in (1, 2) for algorithm in "abba"]
    assert [(cell.algorithm, cell.threads, len(cell.samples)) for cell in cells] == [
        ("a", 1, 2),
        ("b", 1, 2),
        ("a", 2, 2),
        ("b", 2, 2),
    ]


def test_speeds_are_a_table_of_threads_and_algorithms() -> None:
    cells = [Cell(name, threads, [sample(name, threads)]) for threads in (1, 2) for name in ("plain", "x")]
    assert to_text(table.speeds(cells)).splitlines() == [
        "threads           plain               x",
        "      1   5.000 (2.500)   5.000 (2.500)",
        "      2  10.000 (2.500)  10.000 (2.500)",
    ]


def test_a_cell_without_calls_shows_none() -> None:
    assert to_text(table.speeds([Cell("x", 2, [sample("x", calls=0)])])).split() == ["threads", "x", "2", "-"]


def test_checks_show_what_went_backwards() -> None:
    found = [sample("hpet-upstream", violations=3, worst_back_ns=70, oldest_ns=900, old_calls=1)]
    row = to_text(table.checks(found)).splitlines()[1]
    assert row.split() == [
        "hpet-upstream",
        "2",
        "200",
        "3",
        "70",
        "1",
        "900",
    ]


def test_samples_are_kept_one_a_line() -> None:
    lines = measure.json_lines([sample(), sample("plain")]).splitlines()
    assert [Sample(**json.loads(line)) for line in lines] == [sample(), sample("plain")]
