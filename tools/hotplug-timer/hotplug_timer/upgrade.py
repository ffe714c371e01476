"""Records of earlier versions, as result/3 has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hotplug_host.cpulist import parse_cpulist
from hotplug_host.operations import change
from hotplug_host.records import CLOCK_CHECK, END, ITERATION, RUN, TIMER, Record, record

_SETTINGS = ("operations", "iterations", "warmup", "settle_s", "timeout_s")
_RUN = ("started", "tool_version", "host", "topology", "rcu")
_ITERATION = ("index", "operation", "phase", "started", "seconds", "status", "error")
_TRANSITION = ("path", "driver", "cpus_before", "cpus_after", "cpus_expected", "counts", "counter")
#: What hotplug-timer/1 lacks, as it would be of a run without it.
_LACKING: Mapping[str, Any] = {"operation_timeouts_s": {}, "prepare": None, "cleanup": None, "traces": []}
_MEASUREMENTS = ("scale", "order", "drift")


def from_timer(old: Mapping[str, Any]) -> Record:
    """Return a record of hotplug-timer/1 or /2, which has been checked against its schema, as result/3."""
    if old["record"] == RUN:
        own = {name: value for name, value in old["settings"].items() if name not in _SETTINGS}
        return _run(old, TIMER, {"smt": old["smt"], **_LACKING, **own})
    if old["record"] == END:
        return _end(old, TIMER, old["smt_restored"])
    direction, switched = _change(old["cpus_before"], old["cpus_after"])
    detail = {"direction": direction, "switched": switched, **{name: old[name] for name in _TRANSITION}}
    return _iteration(old, TIMER, {**detail, "trace": old.get("trace")})


def from_clock_check(old: Mapping[str, Any]) -> Record:
    """Return a record of clock-check/1, which has been checked against its schema, as result/3."""
    if old["record"] == RUN:
        own = {name: value for name, value in old["settings"].items() if name not in _SETTINGS}
        return _run(old, CLOCK_CHECK, {"clock": old["clock"], **own})
    if old["record"] == END:
        return _end(old, CLOCK_CHECK, old["restored"])
    return _iteration(old, CLOCK_CHECK, {name: old[name] for name in _MEASUREMENTS if old[name] is not None})


def _run(old: Mapping[str, Any], tool: str, detail: Mapping[str, Any]) -> Record:
    settings = {name: old["settings"][name] for name in _SETTINGS}
    common = {name: old[name] for name in _RUN}
    fields = {"variant": old["label"], **common, "settings": settings, "detail": detail}
    return record(RUN, tool, old["run_id"], fields)


def _iteration(old: Mapping[str, Any], tool: str, detail: Mapping[str, Any]) -> Record:
    fields = {name: old[name] for name in _ITERATION}
    return record(ITERATION, tool, old["run_id"], {**fields, "detail": detail})


def _end(old: Mapping[str, Any], tool: str, restored: bool) -> Record:
    fields = {"finished": old["finished"], "outcome": old["outcome"], "restored": restored}
    return record(END, tool, old["run_id"], fields)


@lru_cache(maxsize=64)
def _change(before: str, after: str) -> tuple[str | None, int]:
    """Return what `change` does; a run goes through the same few lists of CPUs again and again."""
    return change(parse_cpulist(before), parse_cpulist(after))
