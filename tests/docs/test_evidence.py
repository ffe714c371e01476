"""No figure of docs/evidence stands without its conditions, and a kept run is judged by its test."""

import datetime
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


def test_the_overview_has_each_test_on_each_architecture_and_what_was_not_run() -> None:
    status = Status.read(STATUS)
    run = {(entry.test, entry.arch) for entry in status.entries if entry.line == "7.3"}
    rows = {tuple(line.split(" | ")[:2]): line for line in status.overview(["7.3"]).splitlines()[2:]}
    wanted = {(f"| {test}", arch) for test, arches in status.tests.items() for arch in arches}
    assert rows.keys() == wanted
    for (test, arch), line in rows.items():
        assert line.endswith("| not run |") == ((test.removeprefix("| "), arch) not in run)


def test_the_overview_has_the_newest_run_that_passed_or_else_the_newest() -> None:
    status = Status.read(STATUS)
    one = next(entry for entry in status.entries if entry.test == "churn")
    days = [datetime.date(2026, 11, day) for day in (20, 21, 22)]
    results = ("passed", "passed", "failed")
    runs = [replace(one, result=result, date=day) for result, day in zip(results, days, strict=True)]
    for entries, stands in ((runs, "passed 2026-11-21"), (runs[2:], "failed 2026-11-22")):
        some = replace(status, entries=tuple(entries), tests={"churn": ["ppc64le"]})
        assert some.overview([one.line]).splitlines()[2:] == [f"| churn | ppc64le | {stands} |"]


def test_lines_are_in_order(tmp_path: Path) -> None:
    assert status_of(tmp_path, SPEED, SPEED).lines == ["6.12", "7.2", "7.3"]
