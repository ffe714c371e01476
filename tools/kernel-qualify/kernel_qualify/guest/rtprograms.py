"""What hackbench and cyclictest of rt-tests say on this kernel."""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Sequence

from kernel_qualify.guest import machine, programs
from kernel_qualify.guest.machine import record, say

HACKBENCH = ("hackbench", "--groups", "1", "--loops", "200")
CYCLICTEST = ("cyclictest", "--verbose", "--threads=1", "--priority=80", "--interval=1000", "--loops=1000")
TIME = re.compile(r"^Time: ([\d.]+)$", re.MULTILINE)
SAMPLE = re.compile(r"^\s*0:\s*\d+:\s*(\d+)$", re.MULTILINE)
"""Thread, cycle, and how late it woke up, in us."""


def output(command: Sequence[str]) -> str:
    """Run a program that the controller has put here and return what it prints."""
    done = programs.run(command)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stdout[-600:]}")
    return done.stdout


def hackbench() -> float:
    """Seconds that groups of senders and receivers took for their messages."""
    (seconds,) = TIME.findall(output(HACKBENCH))
    return float(seconds)


def cyclictest(cpu: int) -> float:
    """How late (us) a thread of a high priority wakes up from sleeps of a millisecond: the median."""
    late = [int(us) for us in SAMPLE.findall(output([*CYCLICTEST, f"--affinity={cpu}"]))]
    return statistics.median(late)


def main() -> None:
    """Take turns, as often as asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, required=True)
    options = parser.parse_args()
    record("machine", **machine.settings(), present=machine.present())
    cpu = machine.online()[-1]
    hackbench()
    for number in range(options.runs):
        say(f"run {number + 1} of {options.runs}")
        record("latency", program=HACKBENCH[0], unit="s", value=hackbench())
        record("latency", program=CYCLICTEST[0], unit="us", value=cyclictest(cpu))
    record("end", online=machine.online(), clocksource=machine.clocksource())


if __name__ == "__main__":
    main()
