"""The manual as one Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotplug_timer.manual.commands import Command, Option

HEAD = """\
# The {program} command

`make docs` generates this page from the parser of the program.
`{program} COMMAND --help` prints the part of one command.
The meaning of each exit code is in [exit codes](exit-codes.md).
"""


def page(commands: Sequence[Command]) -> str:
    """Return the page of a program's commands, the first of which is the program itself."""
    return HEAD.format(program=commands[0].name) + "".join(_section(command) for command in commands)


def _section(command: Command) -> str:
    parts = [f"## {command.name}", f"    {command.usage}", *map(_text, command.description)]
    if command.arguments:
        parts.append(_table("argument", command.arguments))
    if command.options:
        parts.append(_table("option", command.options))
    if command.examples:
        parts.append(f"```sh\n{command.examples}\n```")
    parts += map(_text, command.remarks)
    return "".join(f"\n{part}\n" for part in parts)


def _table(kind: str, options: Iterable[Option]) -> str:
    rows = [f"| {kind} | meaning |", "|---|---|"]
    for option in options:
        name = f"{', '.join(option.names)} {option.value}".strip().replace("|", "\\|")
        rows.append(f"| `{name}` | {_text(option.help)} |")
    return "\n".join(rows)


def _text(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "&lt;").replace("|", "\\|")
