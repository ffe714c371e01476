"""Report what the kernel called since the last report: cores come and go from outside of the guest."""

from __future__ import annotations

import argparse
from contextlib import suppress

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import NONE, Calls, record
from kernel_qualify.guest.speed import COSTS

DLPAR = "dlpar_cpu"
"""The function that adds a core, or removes it, from the hypervisor's event to the last CPU's end."""


def main() -> None:
    """Report counts, and start to count again."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    machine.mount_tracing()
    found = {}
    with suppress(FileNotFoundError):  # nothing was counted yet
        found = machine.profiled()
    # No times: a function that ends on another CPU than it began on has none in the profile.
    calls = {name: found.get(name, NONE)[0] for name in (DLPAR, *COSTS)}
    record("cores", **machine.settings(), present=machine.present(), online=machine.online(), calls=calls)
    Calls(*calls)
