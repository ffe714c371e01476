"""Time in what nests, calls and callbacks: what each takes by itself and with what runs inside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from hotplug_timer.trace.model import Analysis, Folded, Spent


@dataclass
class Span:
    """Something that was entered and not left yet. `inner` is the time in ns of what ran inside it."""

    function: str
    inner: int = 0


@dataclass
class SpentNested(Spent):
    """Times in ns of what ran several times; `own` is without what ran inside."""

    own: int = 0

    def add_nested(self, took: int, own: int) -> None:
        """Take one more."""
        self.add(took)
        self.own += own


S = TypeVar("S", bound=Span)


@dataclass
class Nested(Analysis, Generic[S]):
    """An analysis of spans. What is open is kept by thread, or by whatever else has a stack of its own."""

    unit = "microseconds"
    #: What a span is, in the plural.
    spans: ClassVar[str]

    _open: dict[int, list[S]] = field(default_factory=dict)
    _folded: dict[tuple[str, ...], int] = field(default_factory=dict)
    _unmatched: int = 0

    def end_file(self) -> None:
        """Count what was entered and not left."""
        self._unmatched += sum(map(len, self._open.values()))
        self._open.clear()

    def folded(self) -> Folded:
        """Return stacks of spans with their own time."""
        return {stack: ns // 1000 for stack, ns in self._folded.items()}

    def notices(self) -> tuple[str, ...]:
        """Return how many spans lack their beginning or end."""
        if not self._unmatched:
            return ()
        return (f"{self._unmatched} {self.spans} lack their beginning or end in the trace and were left out",)

    def _close(self, span: S, outer: list[S], took: int, below: tuple[str, ...] = ()) -> int:
        """Take a span that has ended; return its own time in ns.

        `outer` are those it was inside of, outermost first; its stack stands on `below`.
        """
        if outer:
            outer[-1].inner += took
        own = max(took - span.inner, 0)
        stack = (*below, *(open_span.function for open_span in outer), span.function)
        self._folded[stack] = self._folded.get(stack, 0) + own
        return own
