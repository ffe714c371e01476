"""Blocked time from folded stacks, one a line: `THREAD;OUTERMOST;...;INNERMOST MICROSECONDS`.

bcc's `offcputime -f` prints them, and so does `trace --folded` of mode offcpu.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from hotplug_timer.trace.blocked import NO_STACK, Blocked, Where, idle_notices, is_idle, thread_kind
from hotplug_timer.trace.events import END, EVENT, Handlers, Scan, plain_frames, readable
from hotplug_timer.trace.model import Spent

LINE = re.compile(rb"([^;\n]{1,64})((?:;[^;\n]*)*) (\d{1,18})\n?$")
#: What offcputime prints in place of a stack that its storage had no room for.
MISSED = re.compile(r"\[Missed (?:Kernel|User) Stack\]")
#: A CPU that has nothing to do runs this thread: what keeps it from that is no wait.
NOBODY = "swapper/N"


@dataclass
class FoldedOffCpu(Blocked):
    """Sums up folded stacks. They say how long threads were blocked, not how often."""

    single_waits = False

    _blocked: dict[Where, Spent] = field(default_factory=dict)
    _idle: int = 0
    _missed: int = 0

    def handlers(self) -> Handlers:
        """Return none: there are no events."""
        return {}

    def end_file(self) -> None:
        """Do nothing: a line stands for itself."""

    def take(self, line: bytes) -> bool:
        """Take a line; whether it was a stack."""
        found = LINE.match(line)
        if found is None:
            return False
        thread, stack = thread_kind(readable(found[1])), plain_frames(found[2].split(b";"))
        took = 1000 * int(found[3])
        if any(MISSED.fullmatch(name) for name in stack):
            self._missed += took
        if is_idle(stack):
            self._idle += took
        elif thread != NOBODY:
            self._blocked.setdefault((thread, stack or (NO_STACK,)), Spent()).add(took)
        return True

    def busy(self) -> dict[Where, Spent]:
        """Return the time of threads that had something to do."""
        return self._blocked

    def notices(self) -> tuple[str, ...]:
        """Return what was left out, and what is missing."""
        notes = idle_notices(self._idle)
        if self._missed:
            notes.append(
                f"{self._missed / 1e9:.3f} s are of stacks that were not stored: record again with a larger"
                " --stack-storage-size"
            )
        return tuple(notes)


def is_folded(lines: Iterable[bytes]) -> bool:
    """Whether a text's first line is a folded stack."""
    first = next(iter(lines), b"")
    return LINE.match(first) is not None and EVENT.match(first) is None


def scan_folded(lines: Iterable[bytes], analysis: FoldedOffCpu) -> Scan:
    """Give each line to the analysis. A last line that was cut short is left out: so may be its number."""
    taken = unknown = first_unknown = number = 0
    # A line that is too long comes in pieces, and the last of them may look like a stack.
    is_begun = False
    for number, line in enumerate(lines, start=1):
        is_rest, is_begun = is_begun, line[-1:] != END
        if is_begun:
            continue
        if not is_rest and analysis.take(line):
            taken += 1
        elif line.strip():
            unknown += 1
            first_unknown = first_unknown or number
    return Scan(number, taken, unknown, first_unknown, is_begun)
