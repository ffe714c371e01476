"""Records of clock-check, as `compare` and `report` take them: in the shape of hotplug-timer's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FAMILY = "clock-check"
VERSION = 1
DRIVER = "clock-probe"
Record = dict[str, Any]


def translated(record: Mapping[str, Any]) -> Record:
    """Return a record, which has been checked against the schema, in the shape of hotplug-timer's."""
    translate = {"run": _run, "iteration": _iteration, "end": _end}[record["record"]]
    return translate(record)


def _run(record: Mapping[str, Any]) -> Record:
    settings = {**record["settings"], "via": DRIVER, "prepare": None, "cleanup": None}
    return {**record, "settings": settings}


def _iteration(record: Mapping[str, Any]) -> Record:
    # Which CPUs are online is not what is measured, but it stays the same: that was checked.
    cpus = dict.fromkeys(("cpus_before", "cpus_after", "cpus_expected"), record["cpus"])
    return {**record, **cpus, "path": None, "driver": DRIVER, "counts": None, "counter": None, "trace": None}


def _end(record: Mapping[str, Any]) -> Record:
    return {**record, "smt_restored": record["restored"]}
