"""`kernel-qualify all`: every proof with its default options, hours of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common import arch
from hotplug_common.arguments import line, variant
from hotplug_common.command import in_lab
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.proof import Proof, prove

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "all"
PASSED_ON = ("line", "arch", "cores", "threads", "variant", "fragment", "resume", "output_dir")

Defaults = Callable[[str], argparse.Namespace]
"""Gives the options of a subcommand as they are without a word."""
Proofs = Callable[[argparse.Namespace], list[Proof]]


def add(commands: Commands, every: Sequence[tuple[str, Proofs]], defaults: Defaults) -> None:
    """Add the subcommand; `every` names the others, in the order to run them."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="prove everything, for hours; what has passed is passed over with --resume",
        description="""Prove everything, one subcommand after the other, each with its default options
and those given here that it has. A proof that fails does not end the others. With --resume, what
has passed is passed over, until a patch, a fragment, the program or an option changes.""",
        examples="""examples:
  kernel-qualify all --resume
  kernel-qualify all --line 7.3 --resume""",
    )
    # None stands for the subcommand's own default.
    parser.add_argument("--line", type=line, metavar="LINE", help="kernel line, default: 6.12")
    parser.add_argument("--arch", choices=sorted(arch.ARCHES), help="of guests that may be either")
    parser.add_argument("--cores", type=positive, help="cores of guests that may have any")
    parser.add_argument("--threads", type=positive, help="their threads per core")
    parser.add_argument("--variant", type=variant, metavar="NAME", help="kernel where only one is looked at")
    parser.add_argument(
        "--fragment", type=options.fragment, action="append", metavar="NAME", help="one more config fragment"
    )
    options.add_keeping(parser)
    parser.set_defaults(handler=in_lab(partial(_run, every, defaults)))


def chosen(
    arguments: argparse.Namespace, every: Sequence[tuple[str, Proofs]], defaults: Defaults
) -> list[Proof]:
    """Return all proofs, with the options that were given where a subcommand has them."""
    found = []
    for name, proofs in every:
        own = defaults(name)
        for option in PASSED_ON:
            value = getattr(arguments, option)
            if value is not None and hasattr(own, option):
                setattr(own, option, value)
        found += proofs(own)
    return found


def _run(
    every: Sequence[tuple[str, Proofs]],
    defaults: Defaults,
    arguments: argparse.Namespace,
    paths: Paths,
    say: Say,
) -> int:
    Path(arguments.output_dir).mkdir(parents=True, exist_ok=True)
    return prove(chosen(arguments, every, defaults), arguments, paths, say)
