"""`kernel-qualify churn`: cores come and go while SMT switches go on."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotplug_common.arch import PPC64LE
from hotplug_common.guest import qmp, slots
from hotplug_common.ui import Say, out
from hotplug_host.arguments import positive
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import churn
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "churn"
FRAGMENTS = ("debug", "validation")
LIMIT_S = 2 * 3600
SILENCE_S = 600.0
MOST_S = 3600.0
"""The longest that the guest switches."""
STAY = (4, 5)
"""After so many switches beside the first, in turns, the next core comes or goes: so it does not always do so
beside a switch in the same direction."""


class Hypervisor:
    """Adds a core to a guest and removes it, in turns, each time the guest's kernel has followed."""

    def __init__(self, rounds: int, say: Say, folder: Path) -> None:
        self.folder = folder
        self.say = say
        self.left = 2 * rounds
        self.present: list[int] = []
        self.stay = 0
        self.waits = False  # for the guest to have other CPUs

    def hears(self, record: dict[str, Any]) -> None:
        """Take a record of the guest's; ToolError (GUEST) when QEMU refuses to add or remove a core."""
        if record["kind"] != "switch" or not self.left:
            return
        if record["present"] != self.present:
            self.present, self.stay, self.waits = record["present"], 0, False
            return
        self.stay += 1
        if not self.waits and self.stay >= STAY[self.left // 2 % 2]:
            self._change()

    def _change(self) -> None:
        try:
            places = slots.read(self.folder)
            if self.left % 2 == 0:
                slots.fill(self.folder, next(place for place in places if not place.device))
            else:
                slots.clear(self.folder, [place for place in places if place.device][-1])
        except qmp.QmpError as error:
            raise ToolError(f"QEMU: {error}", code=ExitCode.GUEST) from error
        self.left -= 1
        self.waits = True
        self.say(f"  {'removes' if self.left % 2 == 0 else 'adds'} a core")


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="add and remove cores while SMT switches go on",
        description="""Switch SMT off and on without a pause in a bare POWER guest, while the
hypervisor adds a core and removes it, again and again, on a kernel that checks itself.
Proven: no switch fails, each leaves the CPUs online that it should, each core that comes takes part
in the switches, and the kernel reports nothing.""",
        examples="""examples:
  kernel-qualify churn
  kernel-qualify churn --line 7.3 --rounds 3""",
    )
    options.add_line(parser)
    options.add_shape(parser)
    options.add_variant(parser)
    options.add_fragments(parser)
    parser.add_argument(
        "--rounds",
        type=positive,
        default=10,
        metavar="N",
        help="how often a core is added and removed, default: %(default)s",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    every = (*FRAGMENTS, *arguments.fragment)
    order = options.order(arguments, arch=PPC64LE.name, fragments=every)
    find = partial(_find, order, arguments.rounds)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, rounds: int, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    records = guest.alone(
        NAME,
        *("--changes", str(2 * rounds), "--seconds", str(MOST_S)),
        silence=SILENCE_S,
        spare_cores=rounds,
        beside=lambda folder: Hypervisor(rounds, ground.say, folder).hears,
    )
    out(f"churn: {churn.report(records)}")
    return churn.problems(records, rounds) + guest.bare_problems()
