"""What timers are programmed to while the clock is steered, as clock-check finds.

The last round comes after a suspend, where the guest has an alarm that ends it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import machine
from clocks import CLOCK_CHECK, WRONG
from machine import mount_tracing, read, record, say, write

POWER_STATE = Path("/sys/power/state")
DEPTH = Path("/sys/power/mem_sleep")
SUSPENDED = Path("/sys/power/suspend_stats/success")
"""How often it went well."""
WAKE_UP = Path("/sys/class/rtc/rtc0/wakealarm")
ASLEEP_S = 3
STATISTICS = Path("/proc/sys/vm/stat_interval")
RARELY_S = 3600
"""Each second, as they are otherwise, they have a timer programmed anew before it can be off by much."""


def early(ppms: str, sleeps: str, cpu: int) -> None:
    """Record the device, and each sleep at each rate."""
    words = ["early", f"--ppm={ppms}", "--sleeps", sleeps, "--cpu", str(cpu), "--json"]
    done = subprocess.run(
        [sys.executable, CLOCK_CHECK, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode not in (0, WRONG):
        raise SystemExit(f"clock-check early ended with {done.returncode}")
    found = json.loads(done.stdout)
    record("device", **found["device"])
    for sleep in found["sleeps"]:
        record("sleep", **sleep)


def suspend() -> None:
    """Suspend to memory until an alarm; record whether it went well, or that the guest has no such thing.

    Not to idle: what QEMU's alarm ends is the sleep of the machine; Linux does not wake for it.
    """
    if not (DEPTH.exists() and "deep" in read(DEPTH) and WAKE_UP.exists()):
        record("suspend", possible=False)
        return
    before = int(read(SUSPENDED))
    begin = time.clock_gettime(time.CLOCK_BOOTTIME)
    error = write(WAKE_UP, f"+{ASLEEP_S}") or write(DEPTH, "deep") or write(POWER_STATE, "mem")
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - begin
    went_well = not error and int(read(SUSPENDED)) == before + 1
    record("suspend", possible=True, error=error, went_well=went_well, seconds=round(seconds, 3))


def main() -> None:
    """Sleeps at all rates, round after round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ppms", required=True)
    parser.add_argument("--sleeps", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    record("machine", **machine.settings(), present=machine.present())
    mount_tracing()
    write(STATISTICS, RARELY_S)
    cpu = machine.online()[-1]
    for number in range(options.rounds):
        if number == options.rounds - 1:
            suspend()
        say(f"round {number + 1} of {options.rounds}")
        early(options.ppms, options.sleeps, cpu)
    record("end", online=machine.online(), clocksource=machine.clocksource())


if __name__ == "__main__":
    main()
