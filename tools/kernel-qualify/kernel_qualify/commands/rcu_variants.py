"""`kernel-qualify rcu-variants`: the table of RCU variants, all four rows."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.kernel import series
from hotplug_common.ui import out
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import waits
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "rcu-variants"
LIMIT_S = 3 * 3600
PLAY_S = 2.5 * 3600
REPEAT = 2
BOOTS_OF_A_ROW = 2 * REPEAT
"""The rows are booted forth and back, so many times."""
VARIANTS = ("stock", "revert-442bf3aaf55a", "cpuidle-expedited")
ARCH = "ppc64le"
"""Only powerpc pauses cpuidle in CPU hotplug."""


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="make the table of RCU variants, and judge its counts",
        description="""Make the table of RCU variants with the playbook rcu_variants.yml, in a guest of
ppc64le.
Proven: the counts of all four rows. The seconds are printed.""",
        examples="""examples:
  kernel-qualify rcu-variants --iterations 4
  kernel-qualify rcu-variants --line 7.3""",
    )
    options.add_line(parser)
    options.add_shape(parser)
    options.add_iterations(parser, "timed switches of each kind and row, default: %(default)s")
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    order = options.order(arguments, arch=ARCH, variant=series.STOCK)
    find = partial(_find, order, arguments.iterations)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, iterations: int, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    artifacts = {name: str(guest.build(replace(order, variant=name))) for name in VARIANTS}
    guest.start()
    variables = {
        "rcu_variants_artifacts": artifacts,
        "ab_repeat": REPEAT,
        "ab_iterations": max(1, iterations // BOOTS_OF_A_ROW),
        "ab_count_iterations": 2,
        "ab_warmup": 1,
        "ab_results_dir": str(ground.results.absolute()),
    }
    guest.play("rcu_variants.yml", variables, PLAY_S)
    made = ground.results / "table" / guest.name
    out((made / "rcu-variants.md").read_text().rstrip())
    table = json.loads((made / "rcu-variants.json").read_text())
    return waits.problems(table["rows"], table["switched"])
