"""The cycle of operations as the command line has it, and what each of them starts from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.timing.operation import CORES_ON, CPUS, SMT, CoresOn, CpuList, Machine, Operation, SmtLevel

FORMS = "use smt=off|on|K, cores-on=K|all, or cpus=LIST[:off|:on], each with @SECONDS for a time limit"


def parse_operations(texts: Sequence[str]) -> tuple[Operation, ...]:
    """Return the operations that command-line words name; ToolError (USAGE) when one is none.

    `cpus=LIST` stands for two of them, off and on.
    """
    return tuple(operation for text in texts for operation in _parse(text))


def parse_operation(text: str) -> Operation:
    """Return the one operation TEXT names; ToolError (USAGE) when there is none such."""
    operations = _parse(text)
    if len(operations) > 1:
        raise _usage(f"{text!r} is more than one operation", "add :off or :on")
    return operations[0]


def check_cycle(operations: Sequence[Operation]) -> None:
    """Refuse cycles in which an operation does not know what it starts from (ToolError, USAGE)."""
    names = [operation.name for operation in operations]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _usage(
            f"{twice} is given more than once, so transitions from different levels would be mixed",
            "time the other transition in a run of its own",
        )
    lists = {operation.cpus for operation in operations if isinstance(operation, CpuList)}
    if len({operation.kind for operation in operations}) > 1 or len(lists) > 1:
        raise _usage(
            f"{' and '.join(names)} do not undo each other, so they make no cycle",
            "time each kind, and each CPU list, in a run of its own",
        )


def start_of(cycle: Sequence[Operation], position: int, machine: Machine) -> Operation:
    """Return the operation that brings the machine to where cycle[position] starts.

    That is the one before it in the cycle, so that every iteration, the first one too, makes the same
    transition; where that already leaves what is asked for, the far end instead.
    """
    operation, before = cycle[position], cycle[position - 1]
    if before.target(machine) != operation.target(machine):
        return before
    return operation.far_end(machine)


def _parse(text: str) -> list[Operation]:
    whole, at, limit = text.partition("@")
    timeout_s = _seconds(limit, text) if at else None
    kind, _, value = whole.partition("=")
    operations: list[Operation] = []
    if kind == SMT and (value in ("off", "on") or _is_count(value)):
        operations = [SmtLevel(_plain(value), timeout_s)]
    elif kind == CORES_ON and (value == "all" or _is_count(value)):
        operations = [CoresOn(_plain(value), timeout_s)]
    elif kind == CPUS:
        operations = _parse_cpus(value, text, timeout_s)
    if not operations:
        raise _usage(f"unknown operation {text!r}", FORMS)
    return operations


def _parse_cpus(value: str, text: str, timeout_s: float | None) -> list[Operation]:
    cpus, _, state = value.rpartition(":")
    if state not in ("off", "on"):
        cpus, state = value, ""
    if re.search(r"[0-9]{7}", cpus):  # a range of these would fill the memory
        raise _usage(f"{text!r}: CPU numbers have up to 6 digits", "give a list of CPUs like 1-7,9")
    try:
        numbers = parse_cpulist(cpus)
    except ValueError as error:
        raise _usage(f"{text!r}: {error}", "give a list of CPUs like 1-7,9") from None
    if not numbers:
        return []
    states = (False, True) if not state else (state == "on",)
    return [CpuList(format_cpulist(numbers), online, timeout_s) for online in states]


def _is_count(text: str) -> bool:
    # str.isdigit() also accepts other scripts' digits.
    return text.isascii() and text.isdigit() and int(text) > 0


def _plain(value: str) -> str:
    return str(int(value)) if value.isdecimal() else value


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
