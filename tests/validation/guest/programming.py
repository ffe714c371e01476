"""What it takes to program a timer, and to advance the clock, in instructions.

For a guest whose clocks count instructions, a nanosecond each: the times of ftrace's function profile are
numbers of instructions there. Those that the profile takes itself are among them, on any kernel alike.
"""

from __future__ import annotations

import argparse
import os
import time

import machine
from machine import NONE, Calls, profiled, record

PROGRAM = "clockevents_program_event"
STEER = "timekeeping_advance"
"""Where the clock's rate changes, and with it what each device has to know."""
SHORT_S = 0.0005


def cost(cpu: int, count: int) -> None:
    """Record the instructions of both functions, while somebody sleeps `count` times for a moment."""
    os.sched_setaffinity(0, {cpu})
    profile = Calls(PROGRAM, STEER)
    before = profiled()
    for _ in range(count):
        time.sleep(SHORT_S)
    after = profiled()
    profile.stop()
    for function in (PROGRAM, STEER):
        calls, us = (now - was for now, was in zip(after[function], before.get(function, NONE), strict=True))
        facts = {"cpus": len(machine.online()), "calls": calls, "instructions": round(us * 1000)}
        record("cost", function=function, **facts)


def main() -> None:
    """Sleep, and record what that took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sleeps", type=int, default=2000)
    options = parser.parse_args()
    record("machine", **machine.settings(), present=machine.present())
    cost(machine.online()[-1], options.sleeps)
    record("end", online=machine.online(), clocksource=machine.clocksource())


if __name__ == "__main__":
    main()
