"""Report what the kernel called since the last report: cores come and go from outside of the guest."""

from __future__ import annotations

import argparse
from contextlib import suppress

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import NONE, TRACING, record, write
from kernel_qualify.guest.speed import COSTS

DLPAR = "dlpar_cpu"
"""The function that adds a core, or removes it, from the hypervisor's event to the last CPU's end."""


def main() -> None:
    """Report counts and times, and start to count again."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    machine.mount_tracing()
    found = {}
    with suppress(FileNotFoundError):  # nothing was counted yet
        found = machine.profiled()
    calls = {name: found.get(name, NONE) for name in (DLPAR, *COSTS)}
    facts = {name: {"calls": number, "seconds": us / 1e6} for name, (number, us) in calls.items()}
    record("cores", **machine.settings(), present=machine.present(), online=machine.online(), functions=facts)
    write(TRACING / "function_profile_enabled", 0)
    for name in calls:
        write(TRACING / "set_ftrace_filter", name)
    write(TRACING / "function_profile_enabled", 1)
