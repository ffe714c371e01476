"""Run the kernel's own script for CPU hotplug, before and after SMT switches, and report what came of it."""

from __future__ import annotations

import argparse
import subprocess

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import Rendezvous, record, say, switch


def run(script: str, *options: str) -> None:
    """One run of the script."""
    done = subprocess.run(
        ["bash", script, *options], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in done.stdout.splitlines():
        say(f"| {line}")
    record(
        "selftest",
        options=list(options),
        exit_code=done.returncode,
        complaints=[line for line in done.stdout.splitlines() if "unexpected" in line or "skip" in line],
        online=machine.online(),
    )


def main() -> None:
    """Run the short and the full test, then both again after SMT was off and on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    options = parser.parse_args()
    machine.all_on()
    counter = Rendezvous()
    record("machine", **machine.settings(), present=machine.present(), victims=machine.secondaries())
    for _ in range(2):
        run(options.script)
        run(options.script, "-a")
        for value in ("off", "on"):
            record("switch", **switch(value, counter))
    record("end", online=machine.online())


if __name__ == "__main__":
    main()
