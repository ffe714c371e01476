"""What reading the clock costs on this kernel, and whether it goes back or drifts, as clock-check finds."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from kernel_qualify.guest import machine, programs
from kernel_qualify.guest.machine import record, say

CLOCK_CHECK = "clock-check.pyz"
"""Its name among the files that the controller has put into the guest."""
RESULTS = programs.FOLDER / "clock-check.jsonl"
WRONG = 5
"""clock-check's exit code for a clock or a timer that is."""


def clock_check(*words: str) -> int:
    """Run it; return its exit code. What it prints is progress."""
    with subprocess.Popen(
        [sys.executable, str(programs.FOLDER / CLOCK_CHECK), *words, "--output", str(RESULTS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as tool:
        for line in tool.stdout or ():
            say(line.rstrip())
    return tool.returncode


def results() -> list[dict[str, Any]]:
    """Return the iterations of the last run, which are gone with the call."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    RESULTS.unlink()
    return [line for line in lines if line["record"] == "iteration"]


def scale(clocksource: str, threads: Sequence[str], seconds: float, iterations: int) -> None:
    """Record what a call takes each thread, in us, for each number of threads and iteration."""
    words = ["scale", "--path", "syscall", "--clocksource", clocksource, "--threads", ",".join(threads)]
    code = clock_check(*words, "--seconds", str(seconds), "--iterations", str(iterations))
    if code:
        raise SystemExit(f"clock-check scale ended with {code}")
    for line in results():
        count = int(
            str(line["operation"]).rpartition("/")[2].removesuffix("-threads").removesuffix("-thread")
        )
        # A sample is the time of a million calls.
        record("clock", clocksource=clocksource, threads=count, us=line["seconds"])


def order(clocksource: str, calls: int) -> None:
    """Record how many of so many calls went backwards."""
    code = clock_check("order", "--path", "syscall", "--clocksource", clocksource, "--calls", str(calls))
    if code not in (0, WRONG):
        raise SystemExit(f"clock-check order ended with {code}")
    for line in results():
        record("order", clocksource=clocksource, wrong=code == WRONG, result=line["detail"].get("order"))


def drift(clocksource: str, reference: str, seconds: float) -> None:
    """Record how far the clock departed from another one, on each CPU."""
    words = ["--clocksource", clocksource, "--reference", reference, "--seconds", str(seconds)]
    code = clock_check("drift", *words)
    if code not in (0, WRONG):
        raise SystemExit(f"clock-check drift ended with {code}")
    for line in results():
        record(
            "drift",
            clocksource=clocksource,
            reference=reference,
            wrong=line["error"],
            result=line["detail"].get("drift"),
        )


def main() -> None:
    """Scale, then order, then drift, for each clocksource."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clocksources", nargs="+", required=True)
    parser.add_argument("--threads", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--references", nargs="+", default=[])
    parser.add_argument("--watch", type=float, default=60.0)
    options = parser.parse_args()
    record("machine", **machine.settings(), present=machine.present())
    for clocksource in options.clocksources:
        if options.threads:
            scale(clocksource, options.threads, options.seconds, options.iterations)
        if options.calls:
            order(clocksource, options.calls)
        for reference in options.references:
            drift(clocksource, reference, options.watch)
    record("end", online=machine.online(), clocksource=machine.clocksource())


if __name__ == "__main__":
    main()
