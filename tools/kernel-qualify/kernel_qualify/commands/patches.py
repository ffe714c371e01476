"""`kernel-qualify patches`: each patch applies, passes checkpatch, and compiles without a new warning."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hotplug_common.arguments import line
from hotplug_common.command import in_lab
from hotplug_common.kernel import lines
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, out
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify.patches import checks, survey
from kernel_qualify.patches.survey import Selection
from kernel_qualify.proof import require_none

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "patches"


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="check and compile each patch",
        description="""Check each patch: git am takes it, checkpatch has nothing to report, and what it
touches compiles on its predecessors with W=1 and sparse, with no report that the stock file does
not have. Without --topic and --patch also: new files have a maintainer, a message's table of a
struct is what pahole finds, and the experiments compile. What was compiled once with the same input
is not compiled again.""",
        examples="""examples:
  kernel-qualify patches
  kernel-qualify patches --line 7.3 --topic clocks
  kernel-qualify patches --line 6.12 --patch hotplug-0004""",
    )
    parser.add_argument(
        "--line",
        type=line,
        action="append",
        metavar="LINE",
        help="kernel line; may be repeated, default: all of them",
    )
    parser.add_argument("--topic", metavar="TOPIC", help="only the patches of this topic")
    parser.add_argument(
        "--patch", metavar="NAME", help="only patches of this number (clocks-0001), file name or pattern"
    )
    parser.set_defaults(handler=in_lab(_run))


def _run(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    names = list(dict.fromkeys(arguments.line or lines.names(paths.patches)))
    selection = Selection(arguments.topic, arguments.patch)
    if not any(survey.chosen(paths, name, selection) for name in names):
        raise ToolError(
            f"no patch of {', '.join(names)} is selected",
            "see the series files of kernel-patches for topics and names",
            ExitCode.USAGE,
        )
    checks.require_tools()
    with survey.opened(names, paths, say) as shops:
        found = survey.surveys(shops, selection)
    for name, titles in found.items():
        well = sum(not problems for problems in titles.values())
        out(f"{name}: {well} of {len(titles)} checks passed")
    problems = [
        f"{name}: {title}: {problem}"
        for name, titles in found.items()
        for title, several in titles.items()
        for problem in several
    ]
    require_none(problems, "see the lines above")
    return ExitCode.OK
