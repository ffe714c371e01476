"""Stands in for hotplug-timer.pyz: writes results that have its form. A file `timer-fault` makes it fail."""

import argparse
import json
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["run"])
parser.add_argument("operations", nargs="+")
for name in ("label", "iterations", "count-iterations", "warmup", "settle", "timeout", "boot-method"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--output", type=Path, required=True)
parser.add_argument("--sysroot", type=Path, required=True)
parser.add_argument("--emulated", action="store_true")
options = parser.parse_args()

root: Path = options.sysroot
fault = (root / "timer-fault").read_text().strip() if (root / "timer-fault").exists() else ""
if fault == "refuses":
    sys.exit("hotplug-timer: error: SMT=3 is not a level of this machine; use 1, 2, 4 or 8")
release = (root / "proc/sys/kernel/osrelease").read_text().strip()
records: list[dict[str, object]] = []
records.append({"record": "run", "label": options.label, "host": {"kernel_release": release}})
for index in range(int(options.iterations)):
    for operation in options.operations:
        sys.stderr.write(f"[{index + 1}/{options.iterations}] {operation}: 1.000 s\n")
        records.append({"record": "iteration", "index": index, "operation": operation, "seconds": 1.0})
outcome = "failed" if fault == "fails" else "complete"
records.append({"record": "end", "outcome": outcome, "smt_restored": True})
with options.output.open("x") as stream:
    stream.writelines(json.dumps(record) + "\n" for record in records)
if fault == "fails":
    sys.exit("hotplug-timer: error: smt=off left CPUs 3,5 online; look at the kernel log")
