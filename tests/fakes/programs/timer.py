"""Stands in for hotplug-timer.pyz: writes results that have its form.

A file `seconds.json` says how long a switch takes on which kernel.
A file `timer-fault` makes it fail, only the variant in `timer-fault-of` where there is one.
"""

import argparse
import json
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["run"])
parser.add_argument("operations", nargs="+")
for name in ("variant", "iterations", "count-iterations", "warmup", "settle", "timeout"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--sysroot", type=Path, required=True)
parser.add_argument("--boot-method", default="unknown")
parser.add_argument("--emulated", action="store_true")
parser.add_argument("--via", default="auto")
parser.add_argument("--trace", action="append", default=[])
options = parser.parse_args()

root: Path = options.sysroot
fault = (root / "timer-fault").read_text().strip() if (root / "timer-fault").exists() else ""
if (root / "timer-fault-of").exists() and (root / "timer-fault-of").read_text().strip() != options.variant:
    fault = ""
if fault == "refuses":
    sys.exit("hotplug-timer: error: SMT=3 is not a level of this machine; use 1, 2, 4 or 8")
release = (root / "proc/sys/kernel/osrelease").read_text().strip()
boot_id = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
run_id = str(uuid.uuid4())
now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
cpus = "sys/devices/system/cpu"
present = (root / cpus / "present").read_text().strip()
rcu = {path.name: path.read_text().strip() for path in (root / "sys/kernel").glob("rcu_*")}

operations: list[str] = []
for word in options.operations:
    single = word if word.startswith("smt=") or word.endswith((":off", ":on")) else None
    operations += [single] if single else [f"{word}:off", f"{word}:on"]

slow = root / "seconds.json"
seconds_of = json.loads(slow.read_text()) if slow.exists() else {}
records: list[dict[str, Any]] = [
    {
        "record": "run",
        "schema": "result/3",
        "tool": "hotplug-timer",
        "run_id": run_id,
        "variant": options.variant,
        "started": now,
        "tool_version": "fake",
        "host": {
            "hostname": "fake",
            "machine": "ppc64le",
            "kernel_release": release,
            "kernel_version": "#1 SMP",
            "boot_id": boot_id,
            "cmdline": (root / "proc/cmdline").read_text().strip(),
            "boot_method": options.boot_method,
            "emulated": options.emulated,
            "cpu_model": "POWER10",
        },
        "topology": {
            "possible": present,
            "present": present,
            "online": present,
            "cores": 2,
            "threads_per_core": 8,
        },
        "rcu": rcu,
        "settings": {
            "operations": operations,
            "iterations": int(options.iterations),
            "warmup": int(options.warmup),
            "settle_s": float(options.settle),
            "timeout_s": float(options.timeout),
        },
        "detail": {
            "smt": {"control": "on", "active": "1"},
            "count_iterations": int(options.count_iterations),
            "operation_timeouts_s": {},
            "prepare": None,
            "cleanup": None,
            "via": options.via,
            "traces": options.trace,
        },
    }
]
lead = {"schema": "result/3", "tool": "hotplug-timer", "run_id": run_id}
for index in range(1, int(options.iterations) + 1):
    for operation in operations:
        sys.stderr.write(f"[{index}/{options.iterations}] {operation}: 1.000 s\n")
        off = operation.endswith("off")
        records.append(
            {
                "record": "iteration",
                **lead,
                "index": index,
                "operation": operation,
                "phase": "timed",
                "started": now,
                "seconds": seconds_of[release]
                if release in seconds_of
                else 0.5
                if rcu.get("rcu_expedited") == "1"
                else 1.0,
                "status": "ok",
                "error": None,
                "detail": {
                    "direction": "off" if off else "on",
                    "switched": 15,
                    "path": "per-cpu",
                    "driver": "cpu-online",
                    "cpus_before": present if off else "0",
                    "cpus_after": "0" if off else present,
                    "cpus_expected": "0" if off else present,
                    "counts": None,
                    "counter": None,
                    "trace": None,
                },
            }
        )
for index, mode in enumerate(options.trace, start=1):
    for operation in operations:
        recording = options.output.with_suffix(f".{operation}.{mode}.dat")
        recording.write_bytes(b"\x17\x08Dtracing")
        trace = {"mode": mode, "file": recording.name, "seconds": 2.0, "lost_events": 0}
        last = next(record for record in reversed(records) if record.get("operation") == operation)
        detail = {**last["detail"], "trace": trace}
        records.append({**last, "phase": "traced", "index": index, "seconds": None, "detail": detail})
outcome = "failed" if fault == "fails" else "complete"
records.append({"record": "end", **lead, "finished": now, "outcome": outcome, "restored": True})
with options.output.open("x") as stream:
    stream.writelines(json.dumps(record) + "\n" for record in records)
if fault == "fails":
    sys.exit("hotplug-timer: error: smt=off left CPUs 3,5 online; look at the kernel log")
