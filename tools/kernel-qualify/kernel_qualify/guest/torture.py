"""Switch SMT again and again while rcutorture runs, until it is time to stop."""

# ruff: noqa: S311
from __future__ import annotations

import argparse
import random
import time

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import CHUNK, Rendezvous, record, switch, write


def main() -> None:
    """Switch for a number of seconds; leave every CPU online."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    counter = Rendezvous()
    victims = machine.secondaries()
    record("machine", **machine.settings(), present=machine.present(), victims=victims)
    while time.monotonic() < end:
        chunk = random.choice([64, 4])
        write(CHUNK, chunk)
        for value in ("off", "on"):
            record("switch", chunk=chunk, **switch(value, counter))
            time.sleep(random.random())
    machine.all_on()
    record("end", online=machine.online())


if __name__ == "__main__":
    main()
