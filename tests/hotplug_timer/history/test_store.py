"""The store: what is added stays, once, whoever adds at the same time and wherever it was cut short."""

import fcntl
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.history import store
from hotplug_timer.history.entry import Conditions, Entry, Result, failure, from_runs, to_line
from hotplug_timer.history.store import RUNS
from hotplug_timer.reader import read_files
from tests import ROOT
from tests.hotplug_timer.test_fuzz import HOSTILE, JSON, in_one_folder, paths_of
from tests.samples.histories import entry, history, independent, nights, started, write
from tests.samples.resultfiles import STOCK_COUNTS, end, iteration, records, run_record
from tests.samples.resultfiles import write as write_results

ENTRIES = history([1.0, 2.0, 3.0])


def refuses(code: ExitCode, call: Any, *arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        call(*arguments)
    assert caught.value.code == code
    return str(caught.value)


def entry_of(folder: Path, lines: list[dict[str, Any]]) -> Entry:
    [found] = from_runs(read_files([write_results(folder / "r.jsonl", lines)]).runs)
    return found


def test_a_run_becomes_an_entry_with_all_that_a_series_needs(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0, 2.2, 2.4], [1.0], counts=dict(STOCK_COUNTS))
    lines[0]["rcu"] = {"rcu_expedited": "1"}
    assert entry_of(tmp_path, lines) == Entry(
        run_id="r1",
        started="2026-11-20T08:00:00.000Z",
        host="lpar1",
        variant="stock",
        kernel="6.12.117-stock-1a2b3c4d",
        conditions=Conditions("ppc64le", 16, 8, True, "kexec", "ppc64_cpu", True, None),
        results=(
            Result("smt=off", 2.2, 3, STOCK_COUNTS, pytest.approx(100 * stdev(map(log, (2.0, 2.2, 2.4))))),
            Result("smt=on", 1.0, 1, {}),
        ),
        failed=None,
        boot=lines[0]["host"]["boot_id"],
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"outcome": "interrupted"}, "interrupted"),
        ({"outcome": "failed"}, "failed"),
        ({"restored": False}, "the host was not put back as it was before"),
        (None, "its end is missing: it was killed, or the disk was full"),
    ],
)
def test_a_run_that_did_not_go_well_is_a_failed_one(
    tmp_path: Path, change: dict[str, Any] | None, reason: str
) -> None:
    lines = records("r1", "stock", [2.0], [1.0])[:-1]
    if change:
        lines.append(end("r1", **change))
    assert entry_of(tmp_path, lines).failed == reason


def test_the_reason_is_that_of_the_switch_that_failed(tmp_path: Path) -> None:
    bad = iteration("r1", 2, "smt=off", 2.0, status="failed", error="CPU 5 online", path=None)
    lines = [*records("r1", "stock", [2.0], [1.0])[:-1], bad, end("r1", outcome="failed")]
    assert entry_of(tmp_path, lines).failed == "smt=off: CPU 5 online"


def test_an_operation_without_a_sample_is_a_failure(tmp_path: Path) -> None:
    found = entry_of(tmp_path, [run_record(), end("r1")])
    assert found.failed == "no timed sample of smt=off, smt=on"
    assert found.results == ()


def test_what_was_added_is_read_in_time_order(tmp_path: Path) -> None:
    added = store.add(tmp_path / "new/store", ENTRIES[::-1])
    assert (added.entries, added.known, added.notices) == (tuple(ENTRIES[::-1]), 0, ())
    assert store.read(tmp_path / "new/store").entries == tuple(ENTRIES)


def test_adding_twice_changes_nothing(tmp_path: Path) -> None:
    store.add(tmp_path, ENTRIES[:2])
    before = (tmp_path / RUNS).read_bytes()
    added = store.add(tmp_path, [*ENTRIES[:2], ENTRIES[0]])
    assert (added.entries, added.known) == ((), 3)
    assert (tmp_path / RUNS).read_bytes() == before
    assert store.add(tmp_path, [ENTRIES[2], ENTRIES[2]]).known == 1
    # Lines that are there are never touched.
    assert (tmp_path / RUNS).read_bytes().startswith(before)


def test_a_run_with_other_figures_is_refused_and_nothing_added(tmp_path: Path) -> None:
    store.add(tmp_path, ENTRIES[:1])
    before = (tmp_path / RUNS).read_bytes()
    for other in (entry(0, 1.5), entry(0, 1.0, failed="x"), entry(0, 1.25, variant="patched", host="m")):
        text = refuses(ExitCode.INPUT, store.add, tmp_path, [ENTRIES[1], other])
        assert "run patched-000 of" in text
        assert "with other figures" in text
    refuses(ExitCode.INPUT, store.add, tmp_path, [ENTRIES[2], entry(2, 9.0)])
    assert (tmp_path / RUNS).read_bytes() == before


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(ENTRIES[1], started="2026-02-31T02:00:00Z"), "started: '2026-02-31T02:00:00Z' is no time"),
        (replace(ENTRIES[1], variant=""), "variant: "),
        (replace(ENTRIES[1], failed="x" * (1 << 20)), "longer than 1048576 bytes"),
    ],
)
def test_what_could_not_be_read_again_is_not_added(tmp_path: Path, bad: Entry, words: str) -> None:
    text = refuses(ExitCode.INPUT, store.add, tmp_path, [ENTRIES[0], bad])
    assert f"run {bad.run_id} of madeup1: {words}" in text
    assert store.read(tmp_path).entries == ()


def test_the_same_failure_is_one_run() -> None:
    first = failure("h", "stock", started(1), "no SSH")
    assert first == failure("h", "stock", started(1), "no SSH")
    assert first.run_id != failure("h", "stock", started(2), "no SSH").run_id
    assert first.run_id != failure("hs", "tock", started(1), "no SSH").run_id


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_a_last_line_that_was_cut_short_is_told_and_survived(tmp_path: Path, cut: int) -> None:
    write(tmp_path, ENTRIES[:2], tail=to_line(ENTRIES[2])[:cut])
    contents = store.read(tmp_path)
    assert contents.entries == tuple(ENTRIES[:2])
    assert contents.notices == (f"{tmp_path / RUNS}:3: the last line is cut short and was left out",)
    added = store.add(tmp_path, ENTRIES)
    assert added.entries == (ENTRIES[2],)
    assert "the last line was cut short, so it was removed" in added.notices[0]
    assert store.read(tmp_path) == store.Contents(tuple(ENTRIES), ())


def test_a_store_of_nothing_but_half_a_line_is_an_empty_one(tmp_path: Path) -> None:
    write(tmp_path, [], tail="{" * 100_000)
    assert store.read(tmp_path).entries == ()
    assert store.add(tmp_path, ENTRIES).known == 0
    assert store.read(tmp_path).entries == tuple(ENTRIES)


def old_line(entry: Entry) -> str:
    """The entry as the version before wrote it."""
    record = json.loads(to_line(entry))
    del record["boot"]
    for result in record["results"]:
        del result["spread_percent"]
    return json.dumps(record | {"schema": "hotplug-timer/history/1"}) + "\n"


def test_a_store_of_an_earlier_version_is_read_and_goes_on(tmp_path: Path) -> None:
    """What is in it is known, though the run's file tells more today."""
    write(tmp_path, [], tail="".join(map(old_line, ENTRIES[:2])))
    old = [one.as_version_1() for one in ENTRIES[:2]]
    assert store.read(tmp_path).entries == tuple(old)
    assert (old[0].boot, old[0].results[0].spread_percent) == (None, None)
    added = store.add(tmp_path, ENTRIES)
    assert (added.entries, added.known) == ((ENTRIES[2],), 2)
    assert store.read(tmp_path).entries == (*old, ENTRIES[2])
    assert "with other figures" in refuses(ExitCode.INPUT, store.add, tmp_path, [entry(0, 1.5)])


def test_a_boot_and_a_spread_are_figures_too(tmp_path: Path) -> None:
    store.add(tmp_path, ENTRIES[:1])
    assert "with other figures" in refuses(
        ExitCode.INPUT, store.add, tmp_path, [replace(ENTRIES[0], boot="another")]
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", ":2: not a JSON object"),
        ("[]", ":2: not a JSON object"),
        ("[" * 100_000, ":2: not a JSON object"),
        ("{}", ":2: schema None is not hotplug-timer/history/2"),
        ('{"schema": "hotplug-timer/2"}', "schema 'hotplug-timer/2' is not"),
        (
            '{"schema": "hotplug-timer/history/3", "record": "run"}',
            ":2: written for schema hotplug-timer/history/3, newer than hotplug-timer/history/2; use the",
        ),
        ('{"schema": "hotplug-timer/history/1", "record": "run"}', "required"),
        (to_line(ENTRIES[1]).replace("2.0", "NaN").rstrip(), ":2: not a JSON object"),
        (to_line(ENTRIES[1]).replace("2.0", "0").rstrip(), "less than the minimum"),
        (to_line(ENTRIES[1]).replace("08-02", "02-31").rstrip(), "is no time there was"),
        (to_line(ENTRIES[0]).rstrip(), ":2: run patched-000 is there twice"),
    ],
    ids=range(11),
)
def test_a_line_that_is_none_is_refused_by_its_number(tmp_path: Path, line: str, words: str) -> None:
    write(tmp_path, ENTRIES[:1], tail=f"{line}\n")
    assert words in refuses(ExitCode.INPUT, store.read, tmp_path)
    assert words in refuses(ExitCode.INPUT, store.add, tmp_path, ENTRIES)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    assert "cannot open" in refuses(ExitCode.INPUT, store.read, tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert "cannot make" in refuses(ExitCode.ENVIRONMENT, store.add, tmp_path / "file", ENTRIES)
    (tmp_path / RUNS).mkdir()
    refuses(ExitCode.INPUT, store.read, tmp_path)
    refuses(ExitCode.INPUT, store.add, tmp_path, ENTRIES)


@pytest.mark.slow
def test_a_full_disk_adds_nothing(tmp_path: Path) -> None:
    store.add(tmp_path, ENTRIES[:1])
    before = (tmp_path / RUNS).read_bytes()
    code = (
        "import resource, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]);"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before)} + 100, resource.RLIM_INFINITY));"
        "from tests.samples.histories import history; from hotplug_timer.history import store;"
        "from hotplug_host.errors import ToolError\n"
        "try:\n    store.add(Path(sys.argv[1]), history([1.0, 2.0, 3.0]))\n"
        "except ToolError as error:\n    sys.exit(int(error.code))"
    )
    done = subprocess.run(
        # Bytecode that may not grow either would break each later start.
        [sys.executable, "-B", "-c", code, tmp_path, ROOT],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == ExitCode.ENVIRONMENT, done.stderr
    assert (tmp_path / RUNS).read_bytes() == before


def test_who_adds_at_the_same_time_waits(tmp_path: Path) -> None:
    entries = history(nights(1, independent, count=60))
    with ThreadPoolExecutor(8) as pool:
        parts = [entries[at : at + 10] for at in range(0, 60, 5)]
        added = list(pool.map(lambda part: store.add(tmp_path, part), parts))
    assert sum(len(one.entries) for one in added) == 60
    assert [notice for one in added for notice in one.notices] == []
    assert store.read(tmp_path).entries == tuple(entries)


@pytest.mark.slow
def test_processes_that_add_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]);"
        "from tests.samples.histories import history; from hotplug_timer.history import store;"
        "entries = history([float(1 + at) for at in range(8)], variant=sys.argv[3]);"
        "[store.add(Path(sys.argv[1]), [one]) for one in entries]"
    )
    arguments = [sys.executable, "-c", code, tmp_path, ROOT]
    adders = [subprocess.Popen([*arguments, name]) for name in ("a", "b", "a")]
    assert [adder.wait(60) for adder in adders] == [0, 0, 0]
    contents = store.read(tmp_path)
    assert contents.notices == ()
    assert sorted(one.run_id for one in contents.entries) == sorted(
        f"{name}-{night:03d}" for name in "ab" for night in range(8)
    )


def test_a_reader_waits_for_an_adder(tmp_path: Path) -> None:
    store.add(tmp_path, ENTRIES)
    with (tmp_path / RUNS).open() as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = pool.submit(store.read, tmp_path)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert waiting.result(30).entries == tuple(ENTRIES)


def bent(record: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    """Return the record with one part of it replaced."""
    copy: dict[str, Any] = json.loads(json.dumps(record))
    inside: Any = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return copy


RECORD: dict[str, Any] = json.loads(to_line(entry(0, 1.0, failed="no")))


@in_one_folder
@given(st.sampled_from(paths_of(RECORD)), JSON)
def test_any_line_is_read_or_refused(tmp_path: Path, path: tuple[Any, ...], value: object) -> None:
    record = bent(RECORD, path, value) if path else value
    write(tmp_path, [], tail=f"{json.dumps(record)}\n")
    try:
        [found] = store.read(tmp_path).entries
    except ToolError as error:
        assert error.code == ExitCode.INPUT
    else:
        assert json.loads(to_line(found)) == record


@in_one_folder
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / RUNS).write_bytes(data)
    try:
        assert store.read(tmp_path).entries == ()
    except ToolError as error:
        assert error.code == ExitCode.INPUT


# Printable by construction: to filter TEXTS would throw most of them away.
texts = st.sampled_from([text for text in HOSTILE if text.isprintable()]) | st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=20
)
entries = st.builds(
    Entry,
    run_id=texts,
    started=st.sampled_from([started(night) for night in range(40)]),
    host=texts,
    variant=texts,
    kernel=st.none() | texts,
    conditions=st.none()
    | st.builds(
        Conditions,
        machine=texts,
        cpus=st.integers(1, 1 << 20),
        threads_per_core=st.integers(1, 8),
        emulated=st.booleans(),
        boot_method=texts,
        driver=texts,
        rcu_expedited=st.booleans(),
        clocksource=st.none() | texts,
    ),
    results=st.lists(
        st.builds(
            Result,
            operation=texts,
            median_s=st.floats(1e-9, 1e9),
            n=st.integers(1, 1 << 20),
            counts=st.dictionaries(texts, st.floats(0, 1e15), max_size=2),
            spread_percent=st.none() | st.floats(0, 1e6),
        ),
        max_size=3,
    ).map(tuple),
    failed=st.none() | texts,
    boot=st.none() | texts,
)


@in_one_folder
@given(st.lists(entries, max_size=6, unique_by=lambda one: one.run_id), st.integers(0, 400))
def test_any_history_survives_a_cut_anywhere(tmp_path: Path, some: list[Entry], cut: int) -> None:
    (tmp_path / RUNS).unlink(missing_ok=True)
    store.add(tmp_path, some)
    everything = store.read(tmp_path)
    assert sorted(everything.entries, key=lambda one: one.run_id) == sorted(some, key=lambda one: one.run_id)
    data = (tmp_path / RUNS).read_bytes()
    (tmp_path / RUNS).write_bytes(data[: max(len(data) - cut, 0)])
    left = store.read(tmp_path).entries
    assert set(map(to_line, left)) <= set(map(to_line, some))
    assert store.add(tmp_path, some).known == len(left)
    again = store.read(tmp_path).entries
    assert sorted(map(to_line, again)) == sorted(map(to_line, some))
