"""Time per function, from ftrace's function graph of the threads that take one CPU down."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hotplug_common.tables import Table
from hotplug_timer.trace.blocked import thread_kind
from hotplug_timer.trace.events import Event, Handlers, readable
from hotplug_timer.trace.model import Cells, table
from hotplug_timer.trace.nested import Nested, Span, SpentNested

#: A call without calls inside says how long it took: "      0.512 us   |    mutex_lock();"
LEAF = re.compile(rb"[^|]*?(\d+)\.(\d{3}) us *\| *(.*?)\(\);")
OPENING = re.compile(rb" *\| *(.*?)\(\) \{")
CLOSING = re.compile(rb"[^|]*?(\d+)\.(\d{3}) us *\| *\}")


@dataclass
class Graph(Nested[Span]):
    """Sums up calls. Times are in ns; total counts a function once for each of its calls on a stack."""

    spans = "calls"
    title = "Function graph of the threads that switch one CPU"

    _functions: dict[str, SpentNested] = field(default_factory=dict)

    def handlers(self) -> Handlers:
        """Return what takes the events of the function graph."""
        return {"funcgraph_entry": self._entry, "funcgraph_exit": self._exit}

    def tables(self, top: int) -> tuple[Table[Cells], ...]:
        """Return functions by their own time."""
        found = sorted(self._functions.items(), key=lambda item: -item[1].own)[:top]
        rows = tuple(
            (name, spent.times, spent.own / 1e9, spent.total / 1e9, spent.longest / 1e9)
            for name, spent in found
        )
        return (
            table(
                "graph",
                "Time per function, waits included, by its own time; total is with what it called",
                ("function", "calls", "own (s)", "total (s)", "longest (s)"),
                rows,
                ("function",),
            ),
        )

    def _entry(self, event: Event) -> None:
        if (opening := OPENING.match(event.info)) is not None:
            self._open.setdefault(event.pid, []).append(Span(readable(opening[1])))
        elif (leaf := LEAF.match(event.info)) is not None:
            self._take(event, Span(readable(leaf[3])), int(leaf[1] + leaf[2]))
        else:
            self._unmatched += 1

    def _exit(self, event: Event) -> None:
        closing, calls = CLOSING.match(event.info), self._open.get(event.pid)
        if closing is None or not calls:
            self._unmatched += 1
            return
        self._take(event, calls.pop(), int(closing[1] + closing[2]))

    def _take(self, event: Event, call: Span, took: int) -> None:
        outer = self._open.get(event.pid, [])
        own = self._close(call, outer, took, below=(thread_kind(readable(event.task)),))
        self._functions.setdefault(call.function, SpentNested()).add_nested(took, own)
