"""`kernel-qualify latencies`: hackbench and cyclictest, stock against patched."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common import arch
from hotplug_common.kernel import series
from hotplug_common.ui import out
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import keeping, options, rttests
from kernel_qualify.judge import latencies, verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order, in_turns

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "latencies"
LIMIT_S = 6 * 3600
RUNS = 10
"""In each boot."""
CPUS = 2
QUIET = "loglevel=1"


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="run hackbench and cyclictest, stock against patched",
        description="""Run hackbench and cyclictest in bare guests with two CPUs; the kernels take turns,
boot after boot.
Proven: no median is worse than on the stock kernel by more than the runs differ, and they do not
differ so much that this tells nothing.""",
        examples="""examples:
  kernel-qualify latencies --boots 2
  kernel-qualify latencies --arch x86_64""",
    )
    options.add_line(parser)
    options.add_arch(parser)
    options.add_fragments(parser)
    options.add_boots(parser)
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    find = partial(_find, options.order(arguments, cores=CPUS, threads=1), arguments.boots)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, boots: int, ground: Ground) -> list[str]:
    folder = ground.folder / "rt-tests"
    folder.mkdir()
    files = rttests.files(arch.by_name(order.arch), folder, ground.paths, ground.say)
    append = f"{QUIET} tsc=reliable" if order.arch == "x86_64" else QUIET
    records: dict[str, list[verdicts.Record]] = {kernel: [] for kernel in series.VARIANTS}
    guest = ground.guest(order)
    for kernel in in_turns(series.VARIANTS, boots, ground.say):
        guest.order = replace(order, variant=kernel)
        records[kernel] += guest.alone("rtprograms", "--runs", str(RUNS), files=files, append=append)
    run = latencies.Run(
        order.line,
        order.arch,
        CPUS,
        boots,
        {kernel: found[0]["release"] for kernel, found in records.items()},
        tuple(latency for kernel, found in records.items() for latency in latencies.latencies(kernel, found)),
    )
    keeping.save(run, ground.results / "latencies.json")
    out(latencies.table([run]).rstrip())
    return latencies.problems(run)
