"""`kernel-qualify cores`: what it costs that the hypervisor adds and removes a core."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.arch import PPC64LE
from hotplug_common.guest.deadlock import DeadlockError
from hotplug_common.kernel import series
from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import keeping, options
from kernel_qualify.judge import cores
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import TRIES, Order, Proving, in_turns

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "cores"
LIMIT_S = 2 * 3600


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="add and remove cores as DLPAR does, stock against patched",
        description="""Add a core to running POWER guests and remove it, stock and patched, and count
what each costs the whole machine.
Proven: on the patched kernel a core goes with one rendezvous and one rebuild of the scheduler
domains and comes with one rebuild, all its threads go and come, and the kernel reports nothing.""",
        examples="""examples:
  kernel-qualify cores
  kernel-qualify cores --cores 7 --rounds 2""",
    )
    options.add_line(parser)
    options.add_shape(parser)
    options.add_fragments(parser)
    parser.add_argument(
        "--rounds",
        type=positive,
        default=3,
        metavar="N",
        help="how often a core is added and removed in each guest, default: %(default)s",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    order = options.order(arguments, arch=PPC64LE.name)
    find = partial(_find, order, arguments.rounds)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, rounds: int, ground: Ground) -> list[str]:
    changes: list[cores.Change] = []
    releases: dict[str, str] = {}
    reported: list[str] = []
    for kernel in in_turns(series.VARIANTS, 1, ground.say):
        releases[kernel], seen, problems = _seen(replace(order, variant=kernel), rounds, ground)
        changes += seen
        reported += [f"{kernel}: {problem}" for problem in problems]
    run = cores.Run(order.line, order.arch, order.threads, releases, tuple(changes))
    keeping.save(run, ground.results / "cores.json")
    out(cores.table([run]).rstrip())
    return [*reported, *cores.problems(run)]


def _seen(order: Order, rounds: int, ground: Ground) -> tuple[str, list[cores.Change], list[str]]:
    """Add and remove cores in a guest, and in another one when the emulator waits for itself.

    Return the kernel's release, the changes, and what the kernel reported.
    """
    left = TRIES
    while True:
        guest = ground.guest(order)
        try:
            return _seen_in(guest, rounds)
        except DeadlockError as error:
            left -= 1
            if not left:
                raise
            ground.say(f"{error}; once more")
        finally:
            guest.close()


def _seen_in(guest: Proving, rounds: int) -> tuple[str, list[cores.Change], list[str]]:
    changes = []
    guest.boot(words=("--spare-cores", str(rounds)))
    (before,) = guest.script(NAME)
    release = before["release"]
    for _ in range(rounds):
        for action in cores.ACTIONS:
            guest.lab.must("cores", action, guest.name)
            (after,) = guest.script(NAME)
            changes.append(cores.change(guest.order.variant, action, before, after))
            before = after
    return release, changes, guest.log_problems()
