"""Commands of a command line, all made alike: texts keep their lines, `--help` ends with examples."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hotplug_host.entry import Parser, guarded

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_subcommand(
    commands: Commands, name: str, *, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Add the command NAME; SUMMARY is its line in the list of commands, EXAMPLES ends its help."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_commands(parser: Parser) -> Commands:
    """Add the place for commands to a program's parser."""
    return parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)


def run_command(parser: Parser, argv: Sequence[str] | None) -> int:
    """Parse a command line and call its command's `handler`; returns the exit code, also of a fault."""

    def work() -> int | None:
        arguments = parser.parse_args(argv)
        code: int | None = arguments.handler(arguments)
        return code

    return guarded(parser.prog, work)
