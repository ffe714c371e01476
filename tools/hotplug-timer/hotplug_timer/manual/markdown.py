"""The manual as one Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotplug_timer.manual.commands import Command, Option

MAN = "`hotplug-timer manual` is the same as a man page"
HEAD = """\
# Command line of {program}

Written from the parser by `make docs`; {elsewhere}, and `--help` after a
command shows its part. Exit codes are in [exit-codes.md](exit-codes.md).
"""


def page(commands: Sequence[Command], elsewhere: str = MAN) -> str:
    """Return the page of a program's commands, the first of which is the program itself.

    ELSEWHERE says where more of it is.
    """
    head = HEAD.format(program=commands[0].name, elsewhere=elsewhere)
    return head + "".join(_section(command) for command in commands)


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
