"""`kernel-qualify clock-costs`: what a call costs that reads the HPET or the ACPI PM timer."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.ui import out
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import keeping, options
from kernel_qualify.judge import clockcosts, verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order, in_turns

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "clock-costs"
LIMIT_S = 6 * 3600
QUIET = "loglevel=1 tsc=reliable"
"""The watchdog of the clocksource in use before would be in the figures."""
THREADS = (1, 2, 4, 8, 16)
PER_HOST_CPU = (1, 4, 8)


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="time reads of HPET and ACPI PM timer on three kernels",
        description="""Time reads of the HPET and the ACPI PM timer: stock, the HPET without combining,
and patched. In x86-64 guests with as many vCPUs as host CPUs, and with four and eight times as
many. The kernels take turns, each boot after the other.
Proven: the gains that are asked of the HPET.""",
        examples="""examples:
  kernel-qualify clock-costs --per-host-cpu 4 --boots 2
  kernel-qualify clock-costs --line 7.3""",
    )
    options.add_line(parser)
    options.add_fragments(parser)
    options.add_boots(parser)
    parser.add_argument(
        "--per-host-cpu",
        type=int,
        choices=PER_HOST_CPU,
        action="append",
        help="vCPUs on each CPU of this machine, default: all of them",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return a proof for each number of vCPUs."""
    host_cpus = len(os.sched_getaffinity(0))
    facts = options.facts(arguments, "per_host_cpu")
    found = []
    for many in arguments.per_host_cpu or PER_HOST_CPU:
        order = options.order(arguments, arch="x86_64", cores=many * host_cpus, threads=1)
        find = partial(_find, order, arguments.boots, host_cpus)
        found.append(Proof(f"{NAME}/{many}", arguments.line, facts, find, LIMIT_S))
    return found


def _find(order: Order, boots: int, host_cpus: int, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    files = guest.clock_check()
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, "--threads", *map(str, THREADS), "--seconds", "0.5"]
    records: dict[str, list[verdicts.Record]] = {kernel: [] for kernel in clockcosts.KERNELS}
    for kernel in in_turns(clockcosts.KERNELS, boots, ground.say):
        guest.order = replace(order, variant=kernel)
        records[kernel] += guest.alone("clocks", *words, files=files, append=QUIET)
    releases = {kernel: found[0]["release"] for kernel, found in records.items()}
    costs = [cost for kernel, found in records.items() for cost in clockcosts.costs(kernel, found)]
    run = clockcosts.Run(order.line, order.cores, host_cpus, boots, releases, tuple(costs))
    keeping.save(run, ground.results / "clocks.json")
    out(clockcosts.table([run]).rstrip())
    return clockcosts.problems(run)
