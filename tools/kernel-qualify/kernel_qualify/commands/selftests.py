"""`kernel-qualify selftests`: the kernel's own tools/testing/selftests/cpu-hotplug."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.subcommands import add_subcommand
from kernel_qualify import bare, options, stocktree
from kernel_qualify.judge import verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "selftests"
LIMIT_S = 2 * 3600
SCRIPT = "tools/testing/selftests/cpu-hotplug/cpu-on-off-test.sh"
IN_GUEST = f"{bare.FOLDER}/cpu-on-off-test.sh"


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="run the kernel's own CPU-hotplug selftest",
        description="""Run the kernel's own selftest of CPU hotplug, of the line under test.
Proven: single hotplug operations, which the series leaves alone, work as the kernel's script
expects, also after CPUs went and came in chunks.""",
        examples="""examples:
  kernel-qualify selftests
  kernel-qualify selftests --line 7.3 --arch x86_64""",
    )
    options.add_line(parser)
    options.add_arch(parser)
    options.add_shape(parser)
    options.add_variant(parser)
    options.add_fragments(parser)
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    find = partial(_find, options.order(arguments))
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    guest.boot("debug", "validation")
    guest.send(stocktree.file(order.line, SCRIPT, ground.paths), IN_GUEST)
    records = guest.script("selftests", IN_GUEST)
    return verdicts.selftest_problems(records) + guest.log_problems()
