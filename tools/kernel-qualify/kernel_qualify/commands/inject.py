"""`kernel-qualify inject`: every hotplug state that can fail does, off and on."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.arguments import positive
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "inject"
LIMIT_S = 4 * 3600
LEAST_CPUS = 16
"""CPUs of the guest: enough for two chunks of four."""


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="fail every hotplug state that can fail",
        description="""Fail every hotplug state that can fail, in the first, a middle and the last CPU of
a chunk.
Proven: the switch stops there. Earlier CPUs went, the failing one and later ones did not; the
writer and the log know; sched domains and cpusets fit the CPUs that are left; the next switches
work; the log is silent.""",
        examples="""examples:
  kernel-qualify inject --every 3
  kernel-qualify inject --line 7.3
  kernel-qualify inject --arch x86_64 --cores 8""",
    )
    options.add_guest(parser)
    parser.add_argument(
        "--every", type=positive, default=1, metavar="N", help="every Nth state, default: %(default)s"
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    find = partial(_find, options.order(arguments), arguments.every)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, every: int, ground: Ground) -> list[str]:
    if order.cores * order.threads < LEAST_CPUS:
        raise ToolError(
            f"{order.cores} cores x {order.threads} threads are too few CPUs for two chunks",
            f"ask for {LEAST_CPUS} CPUs or more, with --cores and --threads",
            ExitCode.USAGE,
        )
    guest = ground.guest(order)
    guest.boot("debug", "validation")
    always = {f"--always={name}" for names in verdicts.MUST_FAIL.values() for name in names}
    records = guest.script("injection", "--every", str(every), *sorted(always))
    return verdicts.fault_problems(records) + guest.log_problems()
