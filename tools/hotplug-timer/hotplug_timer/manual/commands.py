"""What an argparse parser says about its commands, as plain data: whatever commands it has."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """An option, or an argument. `names` is empty for an argument; `value` is empty for a switch."""

    names: tuple[str, ...]
    value: str
    help: str


@dataclass(frozen=True)
class Command:
    """A command and what its help holds. `examples` are shell lines; `remarks` are paragraphs after them."""

    name: str
    summary: str
    usage: str
    description: tuple[str, ...]
    arguments: tuple[Option, ...]
    options: tuple[Option, ...]
    examples: str
    remarks: tuple[str, ...]


def describe(parser: argparse.ArgumentParser, summary: str = "") -> Iterator[Command]:
    """Yield the parser's command, then those below it, in their order."""
    actions = [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]
    examples, remarks = _examples(parser.epilog or "")
    yield Command(
        name=parser.prog,
        summary=summary or parser.description or "",
        usage=_usage(parser),
        description=_paragraphs(parser.description or ""),
        arguments=tuple(_option(parser, action) for action in actions if not action.option_strings),
        options=tuple(_option(parser, action) for action in actions if action.option_strings),
        examples=examples,
        remarks=remarks,
    )
    for commands in parser._actions:
        if isinstance(commands, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help for choice in commands._choices_actions}
            for name, child in commands.choices.items():
                yield from describe(child, summaries.get(name) or "")


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    return Option(tuple(action.option_strings), _value(parser, action), _help(parser, action))


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if not action.help or action.help == argparse.SUPPRESS:
        return ""
    return parser._get_formatter()._expand_help(action)


def _value(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    default = (action.dest.upper() if action.option_strings else action.dest) if not action.choices else None
    name = action.metavar or default or "{" + ",".join(map(str, action.choices or ())) + "}"
    return parser._get_formatter()._format_args(action, str(name))


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage in one line: what is required by name, the rest as OPTIONS.

    argparse's own differs in its line breaks from one Python to the next.
    """
    words = [parser.prog, "[OPTIONS]"]
    for group in parser._mutually_exclusive_groups:
        if group.required:
            words.append(f"({' | '.join(_called(parser, action) for action in group._group_actions)})")
    words += [
        _called(parser, action) for action in parser._actions if action.option_strings and action.required
    ]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append("COMMAND ...")
        elif not action.option_strings:
            words.append(_value(parser, action))
    return " ".join(words)


def _called(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return f"{action.option_strings[-1]} {_value(parser, action)}".rstrip()


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def _examples(epilog: str) -> tuple[str, tuple[str, ...]]:
    """Return the lines below "examples:", and the other paragraphs."""
    examples: list[str] = []
    remarks: list[str] = []
    for part in epilog.split("\n\n"):
        head, _, below = part.partition("\n")
        if head.strip().lower() == "examples:":
            examples.append(textwrap.dedent(below).rstrip())
        else:
            remarks += _paragraphs(part)
    return "\n".join(examples), tuple(remarks)
