"""The text of `trace-cmd report` as events, one line at a time.

A line is `TASK-PID [CPU] SECONDS: EVENT: INFO`, its columns padded with spaces. A kernel_stack event is
followed by one line a frame, the innermost first: `=> FUNCTION (ADDRESS)`. What was recorded in a trace
instance has the instance's name and a colon before all that. With `report -t`, times have
nine digits behind the point, else six. Latency flags (`report -l`) may stand before the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable

#: A task's name is 15 bytes at most, and may hold anything; padding and a buffer's name may precede it.
EVENT = re.compile(rb"(.{1,80}?)-(\d+) +\[(\d+)\] +(?:[^\s:]{4,8} +)?(\d+)\.(\d{6,9}): ([\w-]+): *(.*)")
LOST = re.compile(rb"CPU:\d+ \[(?:(\d+) )?EVENTS DROPPED\]")
#: What else trace-cmd and the kernel print.
HEADER = re.compile(rb"\s*(?:$|#|(?:\S+: )?cpus=\d+$|version = \d+$|CPU ?\d+ is empty$|trace-cmd: )")
STACK = b"kernel_stack"
#: What the compiler puts behind the name of a function that it made a copy of.
COPY = re.compile(rb"\.(?:part|constprop|isra|cold)\.?\d*")
#: Of the file's last line, when it was cut short, nothing is believed.
END = b"\n"


class Event(NamedTuple):
    """One event: whose thread was running, on which CPU, when (ns), and what the event says.

    STACK are the frame lines of a kernel_stack event as they stand there, empty with any other.
    """

    task: bytes
    pid: int
    cpu: int
    ns: int
    info: bytes
    stack: bytes


Handlers = Mapping[str, Callable[[Event], None]]


@dataclass(frozen=True)
class Scan:
    """Events, those of them taken, lines of no known kind, the first such, and if the end is cut."""

    events: int
    taken: int
    unknown: int
    first_unknown: int
    is_cut: bool


def scan(lines: Iterable[bytes], handlers: Handlers, where: str) -> Scan:
    """Give each event to the handler of its name; ToolError (INPUT) when the kernel lost events.

    Memory is that of one event, whatever the number of lines.
    """
    wanted = {name.encode(): handler for name, handler in handlers.items()}
    match, find = EVENT.match, wanted.get
    stack: list[bytes] = []
    pending: Event | None = None
    take_stack = find(STACK)
    events = taken = unknown = first_unknown = 0
    line = END
    for number, line in enumerate(lines, start=1):
        if line.startswith(b"=> "):
            if pending is not None:
                stack.append(line)
            continue
        if pending is not None:
            _flush(take_stack, pending, stack)
            pending = None
        if (found := match(line)) is None:
            _check_lost(line, where, number)
            if HEADER.match(line) is None:
                unknown += 1
                first_unknown = first_unknown or number
            continue
        events += 1
        task, pid, cpu, seconds, fraction, name, info = found.groups()
        if (handler := find(name)) is None:
            continue
        taken += 1
        ns = int(seconds + fraction.ljust(9, b"0"))
        event = Event(task, int(pid), int(cpu), ns, info, b"")
        if handler is take_stack:
            pending, stack = event, []
        elif line[-1:] == END:
            handler(event)
    is_cut = line[-1:] != END
    if pending is not None and not is_cut:
        _flush(take_stack, pending, stack)
    return Scan(events, taken, unknown, first_unknown, is_cut)


def frames(stack: bytes) -> tuple[str, ...]:
    """Return the functions of a kernel stack, the outermost first, without what the compiler adds."""
    names = [line[3:].partition(b" (")[0].strip() for line in stack.splitlines()]
    return plain_frames(reversed(names))


def plain_frames(names: Iterable[bytes]) -> tuple[str, ...]:
    """Return the functions of a stack, the outermost first, as `frames` does."""
    found: list[str] = []
    for name in names:
        plain = COPY.sub(b"", name)
        # "f" that calls "f.part.0" is one function, cut in two by the compiler.
        if plain and not (found and plain != name and found[-1] == readable(plain)):
            found.append(readable(plain))
    return tuple(found)


def readable(text: bytes) -> str:
    """Return text of the kernel's (a task's name can be any bytes) as printable characters."""
    return printable(text.decode(errors="replace").strip())


def _flush(handler: Callable[[Event], None] | None, event: Event, stack: list[bytes]) -> None:
    if handler is not None:
        handler(event._replace(stack=b"".join(stack)))


def _check_lost(line: bytes, where: str, number: int) -> None:
    if (lost := LOST.search(line)) is not None:
        many = f"{lost[1].decode()} events" if lost[1] else "events"
        raise ToolError(
            f"{where}:{number}: the kernel lost {many}, so what is left says nothing of the whole",
            "record again with a larger --trace-buffer",
            ExitCode.INPUT,
        )
