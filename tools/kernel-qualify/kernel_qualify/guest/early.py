"""What timers are programmed to while the clock is steered, as clock-check finds.

The last rounds come after a suspend each, if asked for and where the guest has something that ends it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import termios
import time
from pathlib import Path

from kernel_qualify.guest import machine, programs
from kernel_qualify.guest.clocks import CLOCK_CHECK, WRONG
from kernel_qualify.guest.machine import mount_tracing, read, record, say, write

POWER_STATE = Path("/sys/power/state")
DEPTH = Path("/sys/power/mem_sleep")
SUSPENDED = Path("/sys/power/suspend_stats/success")
"""How often it went well."""
ALARM = Path("/sys/class/rtc/rtc0/wakealarm")
ALARM_S = 3
KEYS = Path("/sys/class/tty/ttyS0/power/wakeup")
WAKERS = {"deep": ALARM, "s2idle": KEYS}
"""How deep a machine can sleep, and what is to wake it.

The alarm of QEMU's clock wakes a machine that sleeps, but not Linux, which only does nothing: it arms no
interrupt for an alarm. It does for a key that somebody presses on the console.
"""
TEST = Path("/sys/power/pm_test")
CORE = "core"
"""Everything that hibernating takes, the clocks and timers included, but writing memory to a disk and leaving
the machine: the kernel's own test of it. It waits for five seconds instead, and goes on.
"""
DEPTHS = (*WAKERS, CORE)
ASLEEP = "asleep until a key is pressed"
"""Tells the controller to press keys until there is a record."""
STATISTICS = Path("/proc/sys/vm/stat_interval")
RARELY_S = 3600
"""Each second, as they are otherwise, they have a timer programmed anew before it can be off by much."""


def early(ppms: str, sleeps: str, cpu: int) -> None:
    """Record the device, and each sleep at each rate."""
    words = ["early", f"--ppm={ppms}", "--sleeps", sleeps, "--cpu", str(cpu), "--json"]
    done = subprocess.run(
        [sys.executable, str(programs.FOLDER / CLOCK_CHECK), *words],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in (0, WRONG):
        raise SystemExit(f"clock-check early ended with {done.returncode}")
    found = json.loads(done.stdout)
    record("device", **found["device"])
    for sleep in found["sleeps"]:
        record("sleep", **sleep)


def suspend(depth: str) -> None:
    """Suspend until something wakes; record whether it went well, or that the guest has no such thing."""
    if not possible(depth):
        record("suspend", depth=depth, possible=False)
        return
    begin = time.clock_gettime(time.CLOCK_BOOTTIME)
    error, went_well = hibernate() if depth == CORE else sleep(depth)
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - begin
    record("suspend", depth=depth, possible=True, error=error, went_well=went_well, seconds=round(seconds, 3))


def possible(depth: str) -> bool:
    """Whether the guest can be suspended like that, and something ends it."""
    if depth == CORE:
        return TEST.exists() and "disk" in read(POWER_STATE).split()
    return DEPTH.exists() and depth in read(DEPTH) and WAKERS[depth].exists()


def sleep(depth: str) -> tuple[int, bool]:
    """Sleep until woken; returns the error, 0 for none, and whether the kernel counts it as gone well."""
    before = int(read(SUSPENDED))
    if WAKERS[depth] == KEYS:
        be_quiet()
        error = write(KEYS, "enabled")
        say(ASLEEP)
    else:
        error = write(ALARM, f"+{ALARM_S}")
    error = error or write(DEPTH, depth) or write(POWER_STATE, "mem")
    return error, not error and int(read(SUSPENDED)) == before + 1


def hibernate() -> tuple[int, bool]:
    """Hibernate as far as the test does; returns the error, 0 for none, and whether it went well.

    Without the test it would be an error: the guest has no disk for its memory.
    """
    error = write(TEST, CORE) or write(POWER_STATE, "disk")
    return error, not error


def be_quiet() -> None:
    """Have the console show no keys, which could come into a record."""
    settings = termios.tcgetattr(sys.stdin)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, settings)


def main() -> None:
    """Sleeps at all rates, round after round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ppms", required=True)
    parser.add_argument("--sleeps", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--suspends", nargs="*", choices=DEPTHS, default=[], help="the last one last")
    options = parser.parse_args()
    record("machine", **machine.settings(), present=machine.present())
    mount_tracing()
    write(STATISTICS, RARELY_S)
    cpu = machine.online()[-1]
    depths = options.suspends
    for number in range(options.rounds):
        while len(depths) >= options.rounds - number:
            suspend(depths.pop(0))
        say(f"round {number + 1} of {options.rounds}")
        early(options.ppms, options.sleeps, cpu)
    record("end", online=machine.online(), clocksource=machine.clocksource())


if __name__ == "__main__":
    main()
