"""A run as the history keeps it: from a run's records, and to and from a line of the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from statistics import median
from typing import Any

from hotplug_common.boots import spread
from hotplug_timer.compare.cautions import unique
from hotplug_timer.compare.comparison import counts_of, timed_seconds
from hotplug_timer.reader import Run

SCHEMA_NAME = "hotplug-timer/history/"
#: Version 1, which is still read, has no boot and no spread.
SCHEMA_VERSION = 2
RCU_EXPEDITED = "rcu_expedited"


@dataclass(frozen=True)
class Conditions:
    """What has to be the same for two runs to be points of one series.

    `cpus` are those online with SMT on; `driver` is what did the switches; `rcu_expedited` says whether
    all grace periods were; `clocksource` is the one that was measured, None when none was.
    """

    machine: str
    cpus: int
    threads_per_core: int
    emulated: bool
    boot_method: str
    driver: str
    rcu_expedited: bool
    clocksource: str | None


@dataclass(frozen=True)
class Result:
    """One operation of a run: the median of its `n` timed samples (seconds), and median counts by name.

    `spread_percent` is the standard deviation of the samples' logarithms; None for one sample, and in runs
    that an earlier version added.
    """

    operation: str
    median_s: float
    n: int
    counts: dict[str, float]
    spread_percent: float | None = None


@dataclass(frozen=True)
class Entry:
    """One run. `failed` says why it failed; None when it did not.

    Of a run that failed nothing is used, and of one that never began there is no kernel, no conditions
    and no result. `boot` names the boot that was measured; None where that is not known, as in runs that an
    earlier version added.
    """

    run_id: str
    started: str
    host: str
    variant: str
    kernel: str | None
    conditions: Conditions | None
    results: tuple[Result, ...]
    failed: str | None
    boot: str | None = None

    @property
    def time(self) -> datetime:
        """Return when it started."""
        return datetime.fromisoformat(self.started)

    def as_version_1(self) -> Entry:
        """Return what an earlier version kept of it."""
        results = tuple(replace(result, spread_percent=None) for result in self.results)
        return replace(self, boot=None, results=results)


def from_runs(runs: Iterable[Run], host: str | None = None) -> list[Entry]:
    """Return the entries of runs, in their order, as runs of HOST where one is named."""
    entries = map(_from_run, runs)
    return [replace(entry, host=host) for entry in entries] if host else list(entries)


def failure(host: str, variant: str, started: str, reason: str) -> Entry:
    """Return the entry of a run that left no result file; the same words give the same entry."""
    words = json.dumps([host, variant, started])
    run_id = f"failed-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
    return Entry(run_id, started, host, variant, None, None, (), reason)


def to_line(entry: Entry) -> str:
    """Return the entry as a line of the store, with its end."""
    record = {"record": "run", "schema": f"{SCHEMA_NAME}{SCHEMA_VERSION}", **asdict(entry)}
    return json.dumps(record, separators=(",", ":")) + "\n"


def from_record(record: Mapping[str, Any]) -> Entry:
    """Return the entry in a record that has been checked against the schema."""
    fields = {name: value for name, value in record.items() if name not in ("record", "schema")}
    fields["conditions"] = Conditions(**fields["conditions"]) if fields["conditions"] else None
    fields["results"] = tuple(Result(**result) for result in fields["results"])
    return Entry(**fields)


def _from_run(run: Run) -> Entry:
    results = tuple(_results(run))
    entry = Entry(
        run_id=run.run_id,
        started=run.started,
        host=run.host.hostname,
        variant=run.variant,
        kernel=run.host.kernel_release,
        conditions=_conditions(run),
        results=results,
        failed=None,
        boot=run.boot if run.boot_is_known else None,
    )
    return replace(entry, failed=_why_failed(run, {result.operation for result in results}))


def _conditions(run: Run) -> Conditions:
    drivers = unique(kind.driver for kind in run.iterations.kinds() if kind.status == "ok" and kind.driver)
    return Conditions(
        machine=run.shape.machine,
        cpus=run.shape.cpus,
        threads_per_core=run.shape.threads_per_core,
        emulated=run.host.emulated,
        boot_method=run.host.boot_method,
        driver=", ".join(sorted(drivers)) or run.conditions.via,
        rcu_expedited=run.rcu.get(RCU_EXPEDITED, "0") != "0",
        clocksource=run.clocksource,
    )


def _results(run: Run) -> Iterable[Result]:
    for operation in run.operations:
        seconds = timed_seconds([run], run.variant, operation)
        if seconds:
            counts = counts_of([run], run.variant, operation)
            typical = {name: float(median(values)) for name, values in counts.items()}
            within = spread({run.boot: seconds}).within_sd_percent
            yield Result(operation, float(median(seconds)), len(seconds), typical, within)


def _why_failed(run: Run, measured: set[str]) -> str | None:
    """Say why the run is no point of a series; None when it is one."""
    if run.outcome is None:
        return "its end is missing: it was killed, or the disk was full"
    wrong = next(run.iterations.select(lambda kind: kind.status != "ok"), None)
    if run.outcome != "complete":
        # What was measured until then is in the result file; a part of a run is not held against whole ones.
        return f"{wrong.operation}: {wrong.error}" if wrong and run.outcome == "failed" else run.outcome
    if run.restored is False:
        return "the host was not put back as it was before"
    missing = [operation for operation in run.operations if operation not in measured]
    return f"no timed sample of {', '.join(missing)}" if missing else None
