"""Stands in for clock-probe: prints what it would. Beneath a line with ROOT, the root of the fake host.

A file `probe-fault` there makes it misbehave: backwards finds calls that went back, fails does nothing.
"""

import json
import sys
from pathlib import Path

fault = Path(ROOT) / "probe-fault"  # type: ignore[name-defined]  # noqa: F821 - by the line above
word = fault.read_text().strip() if fault.exists() else ""
if word == "fails":
    sys.exit("out of luck")
command, options = sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:] if "=" in argument)
thread = {"calls": 1000, "elapsed_ns": 25_000, "cpu_ns": 25_000, "moved": False}
line = {"vdso": True, "threads": [{"cpu": cpu, **thread} for cpu in range(int(options["--threads"]))]}
if command == "order":
    wrong = 3 if word == "backwards" else 0
    line |= {"calls": int(options["--calls"]), "crossed": 7, "violations": wrong, "worst_ns": 40 * wrong}
sys.stdout.write(json.dumps(line) + "\n")
