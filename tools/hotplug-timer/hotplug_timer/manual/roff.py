"""The manual as a man page (man(7) macros)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotplug_host.errors import ExitCode
from hotplug_timer.manual.commands import Command, Option
from hotplug_timer.manual.exitcodes import MEANINGS


def page(commands: Sequence[Command], version: str) -> str:
    """Return the page; the same parser and version give the same text."""
    whole = commands[0]
    lines = [
        f'.TH "{_text(whole.name.upper())}" 1 "" "{_text(f"{whole.name} {version}")}" "User Commands"',
        ".SH NAME",
        f"{_text(whole.name)} \\- {_text(whole.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        *(line for command in commands for line in (f".B {_text(command.usage)}", ".br")),
        ".SH DESCRIPTION",
        *_body(whole),
    ]
    for command in commands[1:]:
        lines += [f'.SH "{_text(command.name.upper())}"', *_body(command)]
    lines.append(".SH EXIT STATUS")
    for code in ExitCode:
        lines += [".TP", f".B {int(code)}", _line(MEANINGS[code])]
    return "\n".join(lines) + "\n"


def _body(command: Command) -> list[str]:
    lines = [line for text in command.description for line in (".PP", _line(text))]
    lines += [line for option in (*command.arguments, *command.options) for line in _option(option)]
    if command.examples:
        lines += [".PP", "Examples:", ".PP", ".nf", ".RS 2", *map(_line, command.examples.splitlines())]
        lines += [".RE", ".fi"]
    return [*lines, *(line for text in command.remarks for line in (".PP", _line(text)))]


def _option(option: Option) -> Iterable[str]:
    name = f"\\fB{_text(', '.join(option.names))}\\fR" if option.names else ""
    value = f"\\fI{_text(option.value)}\\fR" if option.value else ""
    return ".TP", f"{name} {value}".strip(), _line(option.help)


def _line(text: str) -> str:
    """Return a line of text: one that begins with a dot or a quote would be a request."""
    escaped = _text(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _text(text: str) -> str:
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(aq")
    return plain.replace('"', "\\(dq")
