"""Result files made up for tests, valid unless a test bends them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotplug_host.cpulist import parse_cpulist
from hotplug_host.operations import change

Record = dict[str, Any]
STOCK_COUNTS = {"synchronize_rcu": 29, "stop_machine": 14, "domain_rebuild": 14}


def run_record(run_id: str = "r1", variant: str = "stock", minute: int = 0, **host: object) -> Record:
    return {
        "record": "run",
        "schema": "result/3",
        "tool": "hotplug-timer",
        "run_id": run_id,
        "variant": variant,
        "started": f"2026-11-20T08:{minute:02d}:00.000Z",
        "tool_version": "0.1.0",
        "host": {
            "hostname": "lpar1",
            "machine": "ppc64le",
            "kernel_release": f"6.12.117-{variant}-1a2b3c4d",
            "kernel_version": "#1 SMP",
            "boot_id": f"boot-{run_id}",
            "cmdline": f"hotplug_acceleration.variant={variant}",
            "boot_method": "kexec",
            "emulated": True,
            "cpu_model": "POWER10",
            **host,
        },
        "topology": {
            "possible": "0-15",
            "present": "0-15",
            "online": "0-15",
            "cores": 2,
            "threads_per_core": 8,
        },
        "rcu": {"rcu_expedited": "0"},
        "settings": {
            "operations": ["smt=off", "smt=on"],
            "iterations": 3,
            "warmup": 0,
            "settle_s": 1.0,
            "timeout_s": 7200.0,
        },
        "detail": {
            "smt": {"control": "on", "active": "1"},
            "count_iterations": 1,
            "operation_timeouts_s": {"smt=off": 3600.0},
            "prepare": None,
            "cleanup": None,
            "via": "auto",
            "traces": [],
        },
    }


def iteration(run_id: str, index: int, operation: str, seconds: float | None, **changes: object) -> Record:
    """Return an iteration; CHANGES may name fields of its detail as well."""
    before, after = ("0-15", "0,8") if operation == "smt=off" else ("0,8", "0-15")
    fields: Record = {
        "index": index,
        "operation": operation,
        "phase": "timed" if seconds is not None else "counted",
        "started": "2026-11-20T08:00:01.000Z",
        "seconds": seconds,
        "status": "ok",
        "error": None,
    }
    detail: Record = {
        "direction": None,
        "switched": 0,
        "path": "smt/control",
        "driver": "ppc64_cpu",
        "cpus_before": before,
        "cpus_after": after,
        "cpus_expected": after,
        "counts": None if seconds is not None else dict(STOCK_COUNTS),
        "counter": None if seconds is not None else "function_profile",
        "durations_s": None,
        "trace": None,
    }
    detail.update({name: value for name, value in changes.items() if name in detail})
    fields.update({name: value for name, value in changes.items() if name not in detail})
    online = [parse_cpulist(detail[name]) for name in ("cpus_before", "cpus_after")]
    detail["direction"], detail["switched"] = change(*online)
    head = {"record": "iteration", "schema": "result/3", "tool": "hotplug-timer", "run_id": run_id}
    return {**head, **fields, "detail": detail}


def end(run_id: str, **changes: object) -> Record:
    return {
        "record": "end",
        "schema": "result/3",
        "tool": "hotplug-timer",
        "run_id": run_id,
        "finished": "2026-11-20T08:59:00.000Z",
        "outcome": "complete",
        "restored": True,
        **changes,
    }


def records(
    run_id: str,
    variant: str,
    off: Sequence[float],
    on: Sequence[float] = (),
    *,
    minute: int = 0,
    counts: dict[str, int] | None = None,
    **host: object,
) -> list[Record]:
    """Return a whole run: timed iterations, and a counted one when COUNTS are given."""
    lines = [run_record(run_id, variant, minute, **host)]
    begun = f"2026-11-20T08:{minute:02d}:01.000Z"
    for operation, sample in (("smt=off", off), ("smt=on", on)):
        lines += [iteration(run_id, at, operation, one, started=begun) for at, one in enumerate(sample, 1)]
    if counts is not None:
        lines.append(iteration(run_id, 1, "smt=off", None, counts=counts, started=begun))
    return [*lines, end(run_id)]


def write(path: Path, lines: Sequence[Record], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return path
