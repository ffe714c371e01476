"""`kernel-qualify clock-drift`: HPET and ACPI PM timer keep the pace of other clocks, without a jump."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import clockcosts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "clock-drift"
LIMIT_S = 3600
REFERENCES = ("raw", "/dev/rtc0")


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="hold HPET and ACPI PM timer against other clocks",
        description="""Hold HPET and ACPI PM timer against the machine's real-time clock and the raw one.
Proven: they keep its pace without a jump. In a guest with as many vCPUs as the host has CPUs; its
real-time clock is the emulator's.""",
        examples="""examples:
  kernel-qualify clock-drift
  kernel-qualify clock-drift --line 7.3 --variant stock""",
    )
    options.add_line(parser)
    options.add_variant(parser)
    options.add_fragments(parser)
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    vcpus = len(os.sched_getaffinity(0))
    order = options.order(arguments, arch="x86_64", cores=vcpus, threads=1)
    return [Proof(NAME, arguments.line, options.facts(arguments), partial(_find, order), LIMIT_S)]


def _find(order: Order, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, "--references", *REFERENCES]
    records = guest.alone("clocks", *words, files=guest.clock_check(), append="loglevel=4")
    return clockcosts.drift_problems(records, REFERENCES, order.cores)
