"""How the command line and result files write operations: `smt=off`, `cores-on=4`, `cpus=1-7:on`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ExitCode, ToolError

SMT, CORES_ON, CPUS = "smt", "cores-on", "cpus"
OFF, ON = "off", "on"
DIRECTIONS = (OFF, ON)
ALL_CORES = "all"
#: What may stand for a number.
WORDS = {SMT: DIRECTIONS, CORES_ON: (ALL_CORES,)}
FORMS = "use smt=off|on|K, cores-on=K|all, or cpus=LIST[:off|:on], each with @SECONDS for a time limit"


@dataclass(frozen=True)
class Spec:
    """One operation as the user gave it: kind, what follows "=", and the time limit after "@" if any."""

    kind: str
    argument: str
    timeout_s: float | None = None


def parse(texts: Iterable[str]) -> list[Spec]:
    """Return the operations that command-line words name; ToolError (USAGE) when one is none.

    `cpus=LIST` stands for two of them, off and on.
    """
    return [spec for text in texts for spec in _parse(text)]


def parse_one(text: str) -> Spec:
    """Return the one operation TEXT names; ToolError (USAGE) when there is none such."""
    specs = _parse(text)
    if len(specs) > 1:
        raise _usage(f"{text!r} is more than one operation", "add :off or :on")
    return specs[0]


def name_of(kind: str, argument: str) -> str:
    """Return the name that results have for an operation."""
    return f"{kind}={argument}"


def kind_of(name: str) -> str:
    """Return the kind of an operation by its name in results."""
    return name.partition("=")[0]


def key_of(name: str) -> str:
    """Return the name that summary.json has for an operation: "off", "on", "smt4", "cores-on=1"."""
    kind, _, argument = name.partition("=")
    if kind != SMT:
        return name
    return argument if argument in DIRECTIONS else f"smt{argument}"


def change(before: frozenset[int], after: frozenset[int]) -> tuple[str | None, int]:
    """Return which way most CPUs went between two sets of CPUs online, and how many went.

    The way is "off" or "on", None when no CPU went.
    """
    switched = len(before ^ after)
    if switched == 0:
        return None, 0
    return OFF if len(after) < len(before) else ON, switched


def _parse(text: str) -> list[Spec]:
    whole, at, limit = text.partition("@")
    timeout_s = _seconds(limit, text) if at else None
    kind, _, value = whole.partition("=")
    arguments: list[str] = []
    if kind == CPUS:
        arguments = _cpu_arguments(value, text)
    elif value in WORDS.get(kind, ()):
        arguments = [value]
    elif kind in WORDS and _is_count(value):
        arguments = [str(int(value))]
    if not arguments:
        raise _usage(f"unknown operation {text!r}", FORMS)
    return [Spec(kind, argument, timeout_s) for argument in arguments]


def _cpu_arguments(value: str, text: str) -> list[str]:
    cpus, _, state = value.rpartition(":")
    if state not in DIRECTIONS:
        cpus, state = value, ""
    if re.search(r"[0-9]{7}", cpus):  # a range of these would fill the memory
        raise _usage(f"{text!r}: CPU numbers have up to 6 digits", "give a list of CPUs like 1-7,9")
    try:
        numbers = parse_cpulist(cpus)
    except ValueError as error:
        raise _usage(f"{text!r}: {error}", "give a list of CPUs like 1-7,9") from None
    if not numbers:
        return []
    return [f"{format_cpulist(numbers)}:{way}" for way in ((state,) if state else DIRECTIONS)]


def _is_count(text: str) -> bool:
    # str.isdigit() also accepts other scripts' digits.
    return text.isascii() and text.isdigit() and int(text) > 0


def _seconds(text: str, whole: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise _usage(f"{whole!r}: {text!r} is no time limit", "give seconds above 0, as in smt=off@600")
    return seconds


def _usage(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.USAGE)
