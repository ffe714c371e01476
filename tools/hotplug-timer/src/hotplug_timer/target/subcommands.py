"""Commands of a command line, all made alike: texts keep their lines, `--help` ends with examples."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

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
