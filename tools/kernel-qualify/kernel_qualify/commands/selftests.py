"""`kernel-qualify selftests`: the kernel's own tools/testing/selftests/cpu-hotplug."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.kernel import series
from hotplug_common.paths import Paths
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import bare, options, stocktree
from kernel_qualify.guest.smtcontrol import HELPERS
from kernel_qualify.judge import smtcontrol, verdicts
from kernel_qualify.patches import patchfiles
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "selftests"
LIMIT_S = 4 * 3600
SELFTESTS = "tools/testing/selftests"
ON_OFF = "cpu-on-off-test.sh"
SMT_CONTROL = "smt-control-test.sh"
SMT_SCRIPT = ("smtcontrol", f"{bare.FOLDER}/{SMT_CONTROL}", "--last", smtcontrol.LAST_BUT_WRITERS)
SILENCE_S = 1200.0


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="run the kernel's own selftests of CPU hotplug",
        description="""Run the kernel's own selftests of CPU hotplug: the script of the line under test,
and the test of smt/control that the series adds.
Proven: single hotplug operations, which the series leaves alone, work as the kernel's script
expects, also after CPUs went and came in chunks. smt/control keeps its promises: levels, bad input, a
CPU that refuses, concurrent writers. With the patched variant, the stock kernel passes this test,
too.""",
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


def smt_files(line: str, paths: Paths) -> dict[str, bytes]:
    """Return the test of smt/control and what it includes, by name; LookupError when no patch has it."""
    name = f"{SELFTESTS}/cpu-hotplug/{SMT_CONTROL}"
    return {
        SMT_CONTROL: patchfiles.created_file(paths.patches, line, name).encode(),
        HELPERS: stocktree.file(line, f"{SELFTESTS}/kselftest/{HELPERS}", paths),
    }


def _find(order: Order, ground: Ground) -> list[str]:
    files = smt_files(order.line, ground.paths)
    on_off = stocktree.file(order.line, f"{SELFTESTS}/cpu-hotplug/{ON_OFF}", ground.paths)
    guest = ground.guest(order)
    guest.boot("debug", "validation")
    for name, content in {ON_OFF: on_off, **files}.items():
        guest.send(content, f"{bare.FOLDER}/{name}")
    found = verdicts.selftest_problems(guest.script("selftests", f"{bare.FOLDER}/{ON_OFF}"))
    found += smtcontrol.problems(guest.script(*SMT_SCRIPT, silence=SILENCE_S))
    found += guest.log_problems()
    guest.close()
    if order.variant != series.PATCHED or order.kernel:
        return found
    stock = ground.guest(replace(order, variant=series.STOCK))
    records = stock.alone(*SMT_SCRIPT, files=files, silence=SILENCE_S)
    return found + [f"stock: {problem}" for problem in smtcontrol.problems(records)]
