"""What it takes to program a timer, and to advance the clock, in instructions.

For a guest whose clocks count instructions, a nanosecond each: the times of ftrace's function profile are
numbers of instructions there. Those that the profile takes itself are among them; an empty function has no
others. For one CPU: with more, what the others do meanwhile would be counted.
"""

from __future__ import annotations

import argparse
import os
import time

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import NONE, Calls, profiled, record

PROGRAM = "clockevents_program_event"
STEER = "update_wall_time"
"""Where the clock's rate changes, and with it what each device has to know."""
NOTHING = "arch_cpu_idle_exit"
"""Empty on POWER and x86, and called each time that a CPU leaves idle: what it takes is the profile's own."""
SHORT_S = 0.0005


def cost(cpu: int, count: int) -> None:
    """Record the instructions of the functions, while somebody sleeps `count` times for a moment."""
    functions = (PROGRAM, STEER, NOTHING)
    os.sched_setaffinity(0, {cpu})
    profile = Calls(*functions)
    before = profiled()
    for _ in range(count):
        time.sleep(SHORT_S)
    after = profiled()
    profile.stop()
    for function in functions:
        calls, us = (now - was for now, was in zip(after[function], before.get(function, NONE), strict=True))
        record("cost", function=function, calls=calls, instructions=round(us * 1000))


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
