"""The cycle of operations that an iteration goes through, and what each of them starts from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotplug_host import operations as words
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.timing.operation import CpuList, Machine, Operation, operation_of


def parse_operations(texts: Iterable[str]) -> tuple[Operation, ...]:
    """Return the operations that command-line words name; ToolError (USAGE) when one is none.

    `cpus=LIST` stands for two of them, off and on.
    """
    return tuple(map(operation_of, words.parse(texts)))


def parse_operation(text: str) -> Operation:
    """Return the one operation TEXT names; ToolError (USAGE) when there is none such."""
    return operation_of(words.parse_one(text))


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


def _usage(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.USAGE)
