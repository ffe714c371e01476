"""`kernel-qualify leaks`: SMT switches leave nothing behind."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.arch import PPC64LE
from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import leaks
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "leaks"
LIMIT_S = 3 * 3600
FRAGMENT = "slabs"
NO_XIVE = "xive=off"
"""With XIVE, xive_cleanup_cpu_ipi() of stock leaves two mappings for each CPU, as its comment has it."""


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="switch SMT a thousand times, and look for what the kernel did not give back",
        description="""Switch SMT off and on in a bare guest, and count before, in between and after it
what the kernel holds: objects of each slab cache, memory for CPUs, stacks and mappings, threads,
files in sysfs, interrupts.
Proven: nothing grows by what each CPU would lose that goes off, and threads, files and interrupts
are the same. A file that the test leaves open for each such CPU is noticed.""",
        examples="""examples:
  kernel-qualify leaks
  kernel-qualify leaks --switches 200 --variant stock
  kernel-qualify leaks --arch x86_64 --cores 8""",
    )
    options.add_guest(parser)
    parser.add_argument(
        "--switches", type=positive, default=1000, metavar="N", help="SMT switches, default: %(default)s"
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    order = options.order(arguments)
    order = replace(order, fragments=(*order.fragments, FRAGMENT))
    find = partial(_find, order, arguments.switches)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, switches: int, ground: Ground) -> list[str]:
    append = NO_XIVE if order.arch == PPC64LE.name else ""
    guest = ground.guest(order)
    records = guest.alone(NAME, "--switches", str(switches), append=append, silence=900)
    for line in leaks.report(records):
        out(line)
    return leaks.problems(records) + guest.bare_problems()
