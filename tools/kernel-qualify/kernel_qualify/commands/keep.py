"""`kernel-qualify keep`: take a run into docs/data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common.ui import out
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import figures, options

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "keep"


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="take a run into docs/data, for the evidence",
        description="""Take a run into docs/data, in place of an earlier run of the same guest.
'make docs' makes docs/evidence from the kept runs.""",
        examples="""examples:
  kernel-qualify keep results/qualify/speed/speed.json --line 7.3
  kernel-qualify keep results/qualify/clock-costs/4/clocks.json""",
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="speed.json, clocks.json, early.json, latencies.json, instructions.json, cores.json,"
        " predicted.json or prediction.json of a run",
    )
    options.add_line(parser)
    parser.set_defaults(handler=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        out(str(figures.keep(arguments.run, arguments.line)))
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(
            f"{arguments.run} is no run of this program: {error}",
            "name what a subcommand has written: RUN in kernel-qualify keep --help",
            ExitCode.INPUT,
        ) from error
    return ExitCode.OK
