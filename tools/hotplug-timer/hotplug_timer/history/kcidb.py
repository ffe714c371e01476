"""The newest run of every series in the format of KernelCI's database, KCIDB v5.3.

The format is about kernels that were checked out, built and tested. Of the first two nothing is known here
but the release, so both carry that and no more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable
from hotplug_timer.history.entry import Entry
from hotplug_timer.history.render import failed_text, sentence
from hotplug_timer.history.series import INSUFFICIENT, REGRESSION, Outlook, Series

VERSION = {"major": 5, "minor": 3}
ORIGIN = re.compile(r"[a-z0-9_]+")
#: What is not allowed in a part of a test's path.
NO_PATH = re.compile(r"[^a-zA-Z0-9_-]+")
UNKNOWN = "unknown"
PASS, FAIL, DONE, MISS = "PASS", "FAIL", "DONE", "MISS"
STATUSES = {REGRESSION: FAIL, INSUFFICIENT: DONE}
Record = dict[str, object]


def to_json(outlook: Outlook, origin: str) -> str:
    """Return the report. ORIGIN names whose it is; ToolError (USAGE) when it is no name for that."""
    if not ORIGIN.fullmatch(origin):
        raise ToolError(
            f"--origin {origin!r} is not a name KCIDB takes", "use a to z, 0 to 9 and _", ExitCode.USAGE
        )
    tests = [_series_test(series, origin) for series in outlook.series]
    tests += [_failed_test(entry, origin) for entry in outlook.failed]
    kernels = {series.last.kernel: series.key.conditions.machine for series in outlook.series}
    kernels |= {entry.kernel or UNKNOWN: _machine(entry) for entry in outlook.failed}
    content = {
        "version": VERSION,
        "checkouts": [_checkout(kernel, origin) for kernel in kernels],
        "builds": [_build(kernel, machine, origin) for kernel, machine in kernels.items()],
        "tests": tests,
    }
    return json.dumps(content, indent=2) + "\n"


def _checkout(kernel: str, origin: str) -> Record:
    return {
        "id": _id(origin, "checkout", kernel),
        "origin": origin,
        "comment": printable(kernel),
        "valid": True,
    }


def _build(kernel: str, machine: str, origin: str) -> Record:
    return {
        "id": _id(origin, "build", kernel),
        "checkout_id": _id(origin, "checkout", kernel),
        "origin": origin,
        "architecture": NO_PATH.sub("_", machine.lower()).replace("-", "_"),
        "comment": printable(kernel),
        # It was booted, so it was built.
        **({} if kernel == UNKNOWN else {"status": PASS}),
    }


def _series_test(series: Series, origin: str) -> Record:
    key, last = series.key, series.last
    return {
        "id": _id(origin, last.run_id, key.operation),
        "build_id": _id(origin, "build", last.kernel),
        "origin": origin,
        "path": _path(key.operation, key.variant),
        "status": STATUSES.get(series.verdict, PASS),
        "start_time": _time(last.time),
        "number": {"value": last.result.median_s, "unit": "s"},
        "comment": printable(sentence(series)),
        "environment": _environment(key.host),
        "misc": {"conditions": _printable(vars(key.conditions)), "n": last.result.n, **last.result.counts},
    }


def _failed_test(entry: Entry, origin: str) -> Record:
    return {
        "id": _id(origin, entry.run_id),
        "build_id": _id(origin, "build", entry.kernel or UNKNOWN),
        "origin": origin,
        "path": _path("run", entry.variant),
        "status": MISS,
        "start_time": _time(entry.time),
        "comment": printable(failed_text(entry)),
        "environment": _environment(entry.host),
    }


def _machine(entry: Entry) -> str:
    return entry.conditions.machine if entry.conditions else UNKNOWN


def _environment(host: str) -> Record:
    return {"comment": printable(host)}


def _printable(values: Mapping[str, object]) -> Record:
    return {name: printable(value) if isinstance(value, str) else value for name, value in values.items()}


def _path(operation: str, variant: str) -> str:
    parts: Iterable[str] = ("hotplug_timer", operation, variant)
    return ".".join(NO_PATH.sub("_", part) for part in parts)


def _id(origin: str, *words: str) -> str:
    """Return an id of these words: the same for the same run, whenever it is reported."""
    digest = hashlib.sha256(json.dumps(words).encode()).hexdigest()
    return f"{origin}:{digest[:32]}"


def _time(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
