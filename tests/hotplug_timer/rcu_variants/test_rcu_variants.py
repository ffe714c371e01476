"""The table of RCU variants: what makes a row, and which runs make no table."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hotplug_host.errors import ExitCode
from hotplug_timer import cli
from hotplug_timer.rcu_variants import variants
from tests.samples.resultfiles import Record, end, iteration, run_record, write

NAMES = [variant.name for variant in variants.VARIANTS]
OFF, ON = "cpus=1-15:off", "cpus=1-15:on"
CPUS = {OFF: ("0-15", "0"), ON: ("0", "0-15")}
SECONDS = {
    "stock": [4.0, 4.2, 4.1, 4.3, 4.4],
    "revert-442bf3aaf55a": [3.0, 3.1, 3.2, 3.3, 3.4],
    "cpuidle-expedited": [3.05, 3.15, 3.25, 3.35, 3.45],
    "rcu_expedited": [2.0, 2.1, 2.2, 2.3, 2.4],
}
RELEASES = {name: f"6.12.117-{name}-1a2b3c4d" for name in NAMES} | {
    "rcu_expedited": "6.12.117-stock-1a2b3c4d"
}
COUNTS = {"synchronize_rcu": 31, "stop_machine": 15, "domain_rebuild": 15, "synchronize_rcu_expedited": 0}


def switch(run_id: str, index: int, operation: str, seconds: float | None) -> Record:
    before, after = CPUS.get(operation, ("0-15", "0"))
    return iteration(
        run_id,
        index,
        operation,
        seconds,
        cpus_before=before,
        cpus_after=after,
        cpus_expected=after,
        driver="cpu-online",
        path="per-cpu",
        counts=None if seconds is not None else dict(COUNTS),
    )


def block(name: str, minute: int = 0, operations: Sequence[str] = (OFF, ON)) -> list[Record]:
    """One block of a row: half of what off takes, on."""
    run_id = f"{name}-{minute}"
    begin = run_record(run_id, name, minute, kernel_release=RELEASES[name], hostname="lab1")
    begin["settings"]["operations"] = list(operations)
    begin["rcu"] = {"rcu_expedited": str(int(name == "rcu_expedited")), "rcu_normal": "0"}
    timed = [
        switch(run_id, at, operation, seconds if operation.endswith("off") else seconds / 2)
        for at, seconds in enumerate(SECONDS[name], 1)
        for operation in operations
    ]
    return [begin, *timed, *(switch(run_id, 1, operation, None) for operation in operations), end(run_id)]


Bend = Callable[[dict[str, list[Record]]], Any]


def files(folder: Path, bend: Bend = lambda _: None) -> list[str]:
    """Write a file a row, after a test has bent what is in them."""
    blocks = {name: block(name, minute) for minute, name in enumerate(NAMES)}
    bend(blocks)
    return [str(write(folder / f"{name}.jsonl", lines)) for name, lines in blocks.items()]


def test_the_published_figures_are_those_of_the_posting() -> None:
    """As posted: averages, and decreases to what rounded averages give."""
    posted = {
        "off": [(17.945, None), (10.259, 42.831), (10.129, 43.554), (0.842, 95.304)],
        "on": [(16.474, None), (12.503, 24.104), (12.817, 22.197), (0.4983, 96.975)],
    }
    timings = variants.published_timings()
    for direction, lines in posted.items():
        for variant, (seconds, decrease) in zip(variants.VARIANTS, lines, strict=True):
            found = variants.published(variant, direction, timings)
            assert found.seconds == seconds
            assert found.decrease_percent == (decrease and pytest.approx(decrease, abs=0.006))


def test_four_rows_each_way_next_to_the_published_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rcu-variants", *files(tmp_path), "--format", "json"]) == ExitCode.OK
    table = json.loads(capsys.readouterr().out)
    assert (table["switched"], table["cpus"], table["emulated"]) == (15, 16, True)
    assert table["published"]["switched"] == 127
    assert table["published"]["link"].startswith("https://lore.kernel.org/")
    assert [(row["direction"], row["variant"]) for row in table["rows"]] == [
        (way, name) for way in ("off", "on") for name in NAMES
    ]
    off, on = table["rows"][:4], table["rows"][4:]
    assert [row["mean_s"] for row in off] == pytest.approx([4.2, 3.2, 3.25, 2.2])
    assert [row["mean_s"] for row in on] == pytest.approx([2.1, 1.6, 1.625, 1.1])
    assert off[0]["decrease_percent"] is None
    assert off[3]["decrease_percent"] == pytest.approx(100 * (1 - 2.2 / 4.2))
    assert (off[0]["n"], off[0]["min_s"], off[0]["max_s"]) == (5, 4.0, 4.4)
    assert off[1]["synchronize_rcu"] == 31
    assert [row["kernel"] for row in off] == [RELEASES[name] for name in NAMES]
    assert [row["rcu_expedited"] for row in off] == [False, False, False, True]
    assert [row["published_mean_s"] for row in on] == [16.474, 12.503, 12.817, 0.4983]


def test_files_are_written_and_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new/out"
    assert cli.main(["rcu-variants", *files(tmp_path), "--output-dir", str(out)]) == ExitCode.OK
    markdown, whole, flat = capsys.readouterr().out.split()
    lines = Path(markdown).read_text().splitlines()
    assert sum(line.startswith("| (") for line in lines) == 8
    assert "emulated: its seconds are not hardware's" in lines[0]
    rows = list(csv.DictReader(Path(flat).read_text().splitlines()))
    assert [row["mean_s"] for row in rows] == [
        str(row["mean_s"]) for row in json.loads(Path(whole).read_text())["rows"]
    ]


def test_a_terminal_gets_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rcu-variants", *files(tmp_path)]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "15 CPUs offline" in out
    assert "15 CPUs online" in out


def test_blocks_of_a_row_are_taken_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second = write(tmp_path / "again.jsonl", block("stock", 30))
    assert cli.main(["rcu-variants", *files(tmp_path), str(second), "--format", "json"]) == ExitCode.OK
    stock = json.loads(capsys.readouterr().out)["rows"][0]
    assert (stock["n"], stock["boots"]) == (10, 2)


def test_rows_that_are_asked_for_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rows", "rcu_expedited,stock", "--format", "csv"]
    assert cli.main(["rcu-variants", *files(tmp_path), *arguments]) == ExitCode.OK
    captured = capsys.readouterr()
    rows = list(csv.DictReader(captured.out.splitlines()))
    assert [row["row"] for row in rows] == ["1", "4", "1", "4"]
    assert "note: cpuidle-expedited: was not asked for as a row, and is left out" in captured.err


def test_rows_without_counts_make_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def timed_only(blocks: dict[str, list[Record]]) -> None:
        for name, lines in blocks.items():
            blocks[name] = [line for line in lines if line.get("phase") != "counted"]

    assert cli.main(["rcu-variants", *files(tmp_path, timed_only), "--format", "markdown"]) == ExitCode.OK
    assert "| waits |" not in capsys.readouterr().out


def no_row(blocks: dict[str, list[Record]]) -> None:
    del blocks["cpuidle-expedited"]


def no_way_back(blocks: dict[str, list[Record]]) -> None:
    for minute, name in enumerate(NAMES):
        blocks[name] = block(name, minute, [OFF])


def failed_way_back(blocks: dict[str, list[Record]]) -> None:
    for line in blocks["rcu_expedited"]:
        if line.get("operation") == ON:
            line |= {"status": "failed", "error": "CPU 3 refused", "seconds": None}
            line["detail"]["counts"] = None


def smt_switches(blocks: dict[str, list[Record]]) -> None:
    for minute, name in enumerate(NAMES):
        blocks[name] = block(name, minute, ["smt=off"])


def two_lists(blocks: dict[str, list[Record]]) -> None:
    other = "cpus=1-7:off"
    blocks["stock"] = block("stock", 0, [OFF, ON, other])


def other_shape(blocks: dict[str, list[Record]]) -> None:
    blocks["cpuidle-expedited"][0]["topology"]["cores"] = 4


def real_cpus(blocks: dict[str, list[Record]]) -> None:
    blocks["stock"][0]["host"]["emulated"] = False


def host(name: str, key: str, value: str) -> Bend:
    def bend(blocks: dict[str, list[Record]]) -> None:
        blocks[name][0]["host"][key] = value

    return bend


def rcu(name: str, key: str, value: str) -> Bend:
    def bend(blocks: dict[str, list[Record]]) -> None:
        blocks[name][0]["rcu"][key] = value

    return bend


@pytest.mark.parametrize(
    ("bend", "message"),
    [
        (no_row, "no results of row cpuidle-expedited; there are stock, revert-442bf3aaf55a, rcu_expedited"),
        (no_way_back, "nothing was switched on"),
        (failed_way_back, f"row rcu_expedited has no timed {ON} that succeeded"),
        (smt_switches, "smt=off is no switch of CPUs one by one"),
        (two_lists, f"{OFF} and cpus=1-7:off are both off"),
        (other_shape, "were measured on different topologies"),
        (real_cpus, "some of these runs are emulated and some are not"),
        (
            host("rcu_expedited", "boot_method", "firmware"),
            "the rows are of different boot methods (kexec, firmware)",
        ),
        (host("stock", "hostname", "lab2"), "the rows are of different hosts (lab2, lab1)"),
        (
            host("cpuidle-expedited", "kernel_release", RELEASES["stock"]),
            "row cpuidle-expedited ran 6.12.117-stock-1a2b3c4d, the stock kernel",
        ),
        (
            host("rcu_expedited", "kernel_release", "6.12.117-other"),
            "rows of the kernel stock ran 6.12.117-stock-1a2b3c4d and 6.12.117-other",
        ),
        (rcu("stock", "rcu_expedited", "1"), "row stock was measured with rcu_expedited=1"),
        (rcu("rcu_expedited", "rcu_expedited", "0"), "row rcu_expedited was measured with rcu_expedited=0"),
        (rcu("rcu_expedited", "rcu_normal", "1"), "rcu_normal was set, so that rcu_expedited did nothing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_makes_no_table_is_one_line(
    bend: Bend, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["rcu-variants", *files(tmp_path, bend), "--output-dir", str(out)]) == ExitCode.INPUT
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert (captured.out, out.exists()) == ("", False)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("stock,patched", "no row is called 'patched'; choose of stock, revert-442bf3aaf55a,"),
        ("stock", "stock makes no table; name stock, and one row or more to hold against it"),
        ("", "nothing makes no table"),
        ("rcu_expedited,cpuidle-expedited", "makes no table; name stock"),
    ],
)
def test_rows_that_make_no_table_are_a_usage_error(
    rows: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["rcu-variants", *files(tmp_path), "--rows", rows]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_what_a_file_says_is_text_in_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = host("stock", "cpu_model", "<b>POWER|10")
    assert cli.main(["rcu-variants", *files(tmp_path, bad), "--format", "markdown"]) == ExitCode.OK
    assert "&#60;b&#62;POWER&#124;10" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file/out"
    assert cli.main(["rcu-variants", *files(tmp_path), "--output-dir", str(out)]) == ExitCode.ENVIRONMENT
    assert f"cannot write the table to {out}: Not a directory" in capsys.readouterr().err
