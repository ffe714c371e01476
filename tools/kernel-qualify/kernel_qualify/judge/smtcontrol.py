"""The judge of the kernel's test of smt/control."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from kernel_qualify.judge import ktap
from kernel_qualify.judge.verdicts import Record, completed, of_kind, the

LAST_BUT_WRITERS = "a CPU refuses to come online"
"""The case before the concurrent writers."""
CASES = (
    *("level off", "level on", "level 1", "level 2", "bad input while off", "bad input while on"),
    *("a CPU refuses to go offline", LAST_BUT_WRITERS, "concurrent writers"),
    "CPUs and smt/control are as before",
)
"""What it tests on every architecture that has SMT."""
SIGNALS = (0, signal.SIGTERM, signal.SIGINT)
SIGNALLED = 128
"""A shell that ends on a signal adds this to its number."""


def problems(records: Sequence[Record]) -> list[str]:
    """Each case ran and is ok, and CPUs and smt/control are as before, also after a signal."""
    found = completed(records, the(records, "machine"))
    runs = of_kind(records, "smt-control")
    if [run["signal"] for run in runs] != list(SIGNALS):
        found.append(f"runs until signals {[run['signal'] for run in runs]}, not {list(map(int, SIGNALS))}")
    for run in runs:
        found += [f"{_title(run)}: {problem}" for problem in _run_problems(run)]
    return found


def _title(run: Record) -> str:
    return f"smt/control, until {signal.Signals(run['signal']).name}" if run["signal"] else "smt/control"


def _run_problems(run: Record) -> list[str]:
    found = [] if run["signal"] else ktap.script_problems(run["lines"], CASES)
    wanted = SIGNALLED + run["signal"] if run["signal"] else 0
    if run["exit_code"] != wanted:
        found.append(f"exit code {run['exit_code']}, not {wanted}")
    if run["after"] != run["before"]:
        found.append(f"it left {run['after']}, not {run['before']}")
    return found
