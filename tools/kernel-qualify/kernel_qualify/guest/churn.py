"""Switch SMT off and on without a pause while cores come and go from outside, and report each switch."""

from __future__ import annotations

import argparse
import time
from itertools import cycle

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import record, switch


def main() -> None:
    """Switch until the CPUs of the guest have changed so many times, or for so long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    machine.all_on()
    last = machine.present()
    record("machine", **machine.settings(), present=last, cores=machine.cores())
    changes, deadline = 0, time.monotonic() + options.seconds
    for value in cycle(("off", "on")):
        facts = switch(value)
        now = machine.present()
        record("switch", **facts, present=now)
        changes += now != last
        last = now
        if value == "on" and (changes >= options.changes or time.monotonic() > deadline):
            break
    record("end", online=machine.online())


if __name__ == "__main__":
    main()
