"""`kernel-qualify clock-order`: no call that starts after another one has returned returns less."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import clockcosts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "clock-order"
LIMIT_S = 12 * 3600
SILENCE_S = 6 * 3600.0
VCPUS_PER_CPU = 4
"""So that those who read are preempted."""


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="look for reads of HPET and ACPI PM timer that go backwards",
        description="""Read HPET and ACPI PM timer on all CPUs, in a guest with four times as many vCPUs
as the host has CPUs.
Proven: no call that starts after another one has returned returns less, on whatever vCPUs.""",
        examples="""examples:
  kernel-qualify clock-order --calls 1000000
  kernel-qualify clock-order --line 7.3""",
    )
    options.add_line(parser)
    options.add_variant(parser)
    options.add_fragments(parser)
    parser.add_argument(
        "--calls",
        type=positive,
        default=20_000_000,
        metavar="N",
        help="calls for each clocksource, default: %(default)s",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    vcpus = VCPUS_PER_CPU * len(os.sched_getaffinity(0))
    order = options.order(arguments, arch="x86_64", cores=vcpus, threads=1)
    find = partial(_find, order, arguments.calls)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, calls: int, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, "--calls", str(calls)]
    files = guest.clock_check()
    records = guest.alone("clocks", *words, files=files, append="loglevel=4", silence=SILENCE_S)
    return clockcosts.order_problems(records, calls)
