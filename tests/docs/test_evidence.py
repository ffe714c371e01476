"""No figure of docs/evidence stands without its conditions, and a kept run is judged by its test."""

from dataclasses import replace
from pathlib import Path

import pytest

import evidence
from evidence import DATA, EVIDENCE, Status
from hotplug_host.errors import ToolError

STATUS = DATA / "status.toml"
SPEED = """[[entry]]
data = "speed/6.12-ppc64le-128-bare-one-thread.json"
patches = "hotplug"
conditions = ["patched kernel only", "one thread of QEMU for all vCPUs"]
date = 2026-11-22
"""


def status_of(tmp_path: Path, old: str, new: str) -> Status:
    """Read the status with one place changed."""
    text = STATUS.read_text("utf-8")
    assert text.count(old) == 1
    path = tmp_path / "status.toml"
    path.write_text(text.replace(old, new), "utf-8")
    return Status.read(path)


def test_every_page_of_the_folder_is_generated() -> None:
    """test_docs.py holds them to the kept data."""
    assert {page.name for page in EVIDENCE.glob("*.md")} == set(evidence.names())


def test_a_kept_run_without_conditions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"one entry for each run.*128-bare-one-thread"):
        status_of(tmp_path, SPEED, "")


def test_two_entries_of_one_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="one entry for each run"):
        status_of(tmp_path, SPEED, SPEED + SPEED)


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (SPEED.replace("ppc64le-128", "ppc64le-127"), "ppc64le-127"),
        (SPEED.replace('patches = "hotplug"\n', ""), "patches"),
        (SPEED.replace("date", "when"), "when"),
        (SPEED.replace('data = "speed/6.12-ppc64le-128-bare-one-thread.json"', 'test = "fly"'), "fly"),
    ],
)
def test_a_bad_entry_is_named(tmp_path: Path, new: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        status_of(tmp_path, SPEED, new)


def test_an_unknown_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"unknown tests.*latencies"):
        status_of(tmp_path, '"latencies" = ["ppc64le", "x86_64"]\n', "")


def test_the_judge_of_the_test_gives_the_result_of_a_kept_run() -> None:
    results = {entry.kept.path.name: entry.result for entry in Status.read(STATUS).entries if entry.kept}
    assert results["6.12-ppc64le-128-bare.json"] == "passed"
    assert results["6.12-x86_64-lapic.json"] == "not passed"
    table = Status.read(STATUS).table("6.12")
    assert "[x86_64 lapic](clock-events.md#linux-612): stock: did not suspend (deep)" in table


def test_what_was_not_run_is_in_the_status() -> None:
    status = Status.read(STATUS)
    run = {(entry.test, entry.arch) for entry in status.entries if entry.line == "7.3"}
    table = status.table("7.3")
    for test, arch in (("stress", "ppc64le"), ("leaks", "x86_64"), ("stress", "x86_64")):
        assert (f"| {test} | {arch} |  |  | not run |  |  |  |" in table) == ((test, arch) not in run)
    status = replace(status, entries=tuple(entry for entry in status.entries if entry.test != "stress"))
    assert "| stress | x86_64 |  |  | not run |  |  |  |" in status.table("7.3")


def test_lines_are_in_order(tmp_path: Path) -> None:
    assert status_of(tmp_path, SPEED, SPEED).lines == ["6.12", "7.2", "7.3"]
