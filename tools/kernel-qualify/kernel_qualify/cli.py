"""The `kernel-qualify` command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from hotplug_common.command import in_lab
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.entry import Parser
from hotplug_host.subcommands import add_commands, run_command
from kernel_qualify.commands import (
    churn,
    clock_costs,
    clock_debug,
    clock_drift,
    clock_early,
    clock_order,
    cores,
    everything,
    inject,
    instructions,
    keep,
    kexec,
    latencies,
    leaks,
    matrix,
    patches,
    predict,
    rcu_variants,
    rcutorture,
    selftests,
    speed,
    stress,
    timers,
)
from kernel_qualify.proof import Proof, prove

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

EXIT_CODES = """exit codes:
  0 proven; 1 a bug in this tool; 2 bad arguments; 3 the machine lacks something (tool, network, space, port);
  4 bad input (a patch does not apply, a configuration symbol was lost); 5 problems were found, each printed
  on a line; 6 a guest failed; 7 time ran out; 130 interrupted; 143 terminated"""


class Command(Protocol):
    """A module with a subcommand of proofs."""

    NAME: str

    @property
    def add(self) -> Callable[[Commands], None]:
        """Adds the subcommand."""

    @property
    def proofs(self) -> Callable[[argparse.Namespace], list[Proof]]:
        """Returns what the options ask for."""


COMMANDS: tuple[Command, ...] = (
    matrix,
    selftests,
    inject,
    stress,
    leaks,
    rcutorture,
    speed,
    instructions,
    cores,
    churn,
    kexec,
    timers,
    latencies,
    predict,
    rcu_variants,
    clock_costs,
    clock_debug,
    clock_drift,
    clock_early,
    clock_order,
)
"""In the order in which `all` runs them."""


def build_parser() -> Parser:
    """Build the command line."""
    top = Parser(
        prog="kernel-qualify",
        description="""Qualifies kernels: proves in guests, and by compiling, that the series is right,
and how fast it is. Each subcommand prints every problem it finds, one a line.""",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = add_commands(top)
    every = [(command.NAME, command.proofs) for command in COMMANDS]
    everything.add(commands, every, lambda name: build_parser().parse_args([name]))
    patches.add(commands)
    keep.add(commands)
    for command in COMMANDS:
        command.add(commands)
        commands.choices[command.NAME].set_defaults(handler=in_lab(partial(_prove, command.proofs)))
    return top


def _prove(
    proofs: Callable[[argparse.Namespace], list[Proof]],
    arguments: argparse.Namespace,
    paths: Paths,
    say: Say,
) -> int:
    return prove(proofs(arguments), arguments, paths, say)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return run_command(build_parser(), argv)
