"""The commands `manual` and `completion`: what they print follows the parser that they are part of."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_host import __version__
from hotplug_host.subcommands import add_subcommand
from hotplug_timer.manual import markdown, roff
from hotplug_timer.manual.commands import describe

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

SHELLS = ("bash", "zsh", "tcsh")
MANUAL_DESCRIPTION = "Print the manual of all commands, as a man page or in Markdown."
MANUAL_EPILOG = """\
examples:
  hotplug-timer manual | man -l -
  hotplug-timer manual --format markdown
"""
COMPLETION_DESCRIPTION = "Print what makes a shell complete commands, options and file names."
COMPLETION_EPILOG = """\
examples:
  # for bash with bash-completion, from the next shell on
  hotplug-timer completion bash > ~/.local/share/bash-completion/completions/hotplug-timer
  # for zsh, with that folder in fpath
  hotplug-timer completion zsh > ~/.zfunc/_hotplug-timer
"""


def add_commands(
    commands: Commands,
    build_parser: Callable[[], argparse.ArgumentParser],
) -> None:
    """Add both commands to a parser that BUILD_PARSER makes anew."""
    manual = add_subcommand(
        commands,
        "manual",
        summary="print the manual",
        description=MANUAL_DESCRIPTION,
        examples=MANUAL_EPILOG,
    )
    manual.add_argument(
        "--format", choices=("man", "markdown"), default="man", help="what to print (default: %(default)s)"
    )
    manual.set_defaults(handler=lambda chosen: _print(manual_text(build_parser(), chosen.format)))
    completion = add_subcommand(
        commands,
        "completion",
        summary="print a shell's completion script",
        description=COMPLETION_DESCRIPTION,
        examples=COMPLETION_EPILOG,
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    completion.set_defaults(handler=lambda chosen: _print(completion_text(build_parser(), chosen.shell)))


def _print(text: str) -> None:
    sys.stdout.write(text)


def manual_text(parser: argparse.ArgumentParser, style: str) -> str:
    """Return the manual as "man" or "markdown"."""
    commands = list(describe(parser))
    return markdown.page(commands) if style == "markdown" else roff.page(commands, __version__)


def completion_text(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script for a shell in `SHELLS`."""
    import shtab  # noqa: PLC0415 - `run` needs none of it

    for action in _actions(parser):
        if action.type is Path:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(parser, shell=shell)
    return f"{script.rstrip()}\n"


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [one for child in action.choices.values() for one in _actions(child)]
    return found
