"""`kernel-qualify kexec`: no jump from kernel to kernel loses a CPU."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.arch import PPC64LE
from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.guest.kexecs import IMAGE, LEFT
from kernel_qualify.judge import kexecs
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import RADIX, Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "kexec"
LIMIT_S = 2 * 3600


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="jump from kernel to kernel by kexec, and count the CPUs",
        description="""Let a POWER guest jump into the same kernel again and again by kexec.
Proven: after each jump all CPUs are online. A CPU that is lost still executes the kernel before, at
an address where the next one has copied itself to. The first jump that loses one is the last.""",
        examples="""examples:
  kernel-qualify kexec --times 10
  kernel-qualify kexec --mmu radix --variant stock
  kernel-qualify kexec --mmu radix --variant kexec-handshake""",
    )
    options.add_line(parser)
    options.add_shape(parser)
    options.add_variant(parser)
    options.add_fragments(parser)
    parser.add_argument("--times", type=positive, default=50, metavar="N", help="jumps, default: %(default)s")
    parser.add_argument(
        "--mmu",
        choices=("radix", "hash"),
        default="hash",
        help="the MMU's mode; emptying the hash page table gives other CPUs time to leave "
        "(default: %(default)s)",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    order = options.order(arguments, arch=PPC64LE.name)
    find = partial(_find, order, arguments.times, arguments.mmu)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, times: int, mmu: str, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    words = f"{LEFT}={times} {RADIX if mmu == 'radix' else ''}"
    records = guest.alone("kexecs", files={IMAGE: guest.image()}, append=words)
    chain = kexecs.boots(records)
    kept = sum(not boot.lost for boot in chain[1:])
    out(f"kexec: {kept} of {times} jumps kept all CPUs")
    return kexecs.problems(chain, times)
