"""`kernel-qualify instructions`: what SMT switches take, in a measure that no emulator distorts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common import process
from hotplug_common.arch import PPC64LE
from hotplug_common.kernel import series
from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.errors import ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import keeping, options
from kernel_qualify.judge import instructions, verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "instructions"
LIMIT_S = 6 * 3600
SILENCE_S = 3600.0
QUIET = "loglevel=1"
SOURCE = Path(__file__).parents[1] / "plugin/profile.c"
COMPILE = ("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden", "-o")


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="count the instructions of SMT switches, by function",
        description="""Count the instructions that bare POWER guests execute during SMT switches, stock and
patched, by kernel function and of each CPU's turn in a rendezvous, with a plugin of QEMU's.
Proven: on the patched kernel a CPU, and its turn, take no more instructions in the largest of these
guests than in the smallest, but for 10%, and each CPU that goes has one turn.""",
        examples="""examples:
  kernel-qualify instructions
  kernel-qualify instructions --sizes 2 8 16 --switches 2
  kernel-qualify instructions --sizes 16 --patched-only""",
    )
    options.add_line(parser)
    parser.add_argument(
        "--sizes",
        type=positive,
        nargs="+",
        default=[2, 8],
        metavar="CORES",
        help="numbers of cores of the guests, default: 2 8",
    )
    parser.add_argument(
        "--patched-only",
        action="store_true",
        help="leave stock out, one switch of which takes the emulator ten minutes with 128 CPUs",
    )
    parser.add_argument("--threads", type=positive, help="threads per core, default: 8")
    options.add_fragments(parser)
    parser.add_argument(
        "--switches",
        type=positive,
        default=5,
        metavar="N",
        help="times off and on that are counted in each guest, after a first one; default: %(default)s",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    orders = [options.order(arguments, arch=PPC64LE.name, cores=cores) for cores in sorted(arguments.sizes)]
    kernels = (series.PATCHED,) if arguments.patched_only else series.VARIANTS
    find = partial(_find, orders, kernels, arguments.switches)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(orders: Sequence[Order], kernels: Sequence[str], number: int, ground: Ground) -> list[str]:
    plugin = ground.folder / "profile.so"
    done = process.run([*COMPILE, plugin, SOURCE])
    if done.returncode:
        raise ToolError(f"cc failed: {process.last_line(done.output)}", "install gcc and libc6-dev")
    found: list[instructions.Switches] = []
    releases = {}
    for kernel in kernels:
        symbols = _symbols(replace(orders[0], variant=kernel, cores=1, threads=1), ground)
        for order in orders:
            cpus = order.cores * order.threads
            spans = ground.results / f"{kernel}-{cpus}.jsonl"
            records = ground.guest(replace(order, variant=kernel)).alone(
                NAME,
                *("--switches", str(number + 1)),
                append=QUIET,
                silence=SILENCE_S,
                plugin=f"{plugin},symbols={symbols},out={spans.resolve()}",
            )
            facts = verdicts.the(records, "machine")
            releases[kernel] = facts["release"]
            counted = [json.loads(line) for line in spans.read_text().splitlines()]
            found += instructions.switches(kernel, cpus, len(facts["victims"]), counted)
    run = instructions.Run(orders[0].line, orders[0].arch, orders[0].threads, releases, tuple(found))
    keeping.save(run, ground.results / "instructions.json")
    out(instructions.table([run]).rstrip())
    return instructions.problems(run)


def _symbols(order: Order, ground: Ground) -> Path:
    """Return the plugin's file of symbols, which a guest reports: POWER kernels stay at one address."""
    records = ground.guest(order).alone(NAME, "--switches", "0", append=QUIET)
    text = verdicts.files(records)["symbols"].decode()
    path = ground.folder / f"{order.variant}.symbols"
    path.write_text(instructions.symbols_file(text))
    return path
