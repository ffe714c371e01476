"""What the kernel's own tracepoints say of a bulk transition: in how many chunks the CPUs went, and how.

Kernels with the cpuhp_bulk_* tracepoints have them; elsewhere these counts are absent.
"""

from __future__ import annotations

import re

from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.eventtrace import EventTrace

INSTANCE = "hotplug-timer-bulk"
EVENT = "cpuhp/cpuhp_bulk_chunk"
#: A line of the trace file; `fallback` says why the CPUs of a chunk went one by one, "no" when they did not.
CHUNK = re.compile(r": cpuhp_bulk_chunk: .* fallback: (?P<fallback>.*) ret: -?\d+ ")


def fallbacks(text: str) -> list[str]:
    """Return why the CPUs of a chunk went one by one, for each such chunk in the text of a trace file."""
    return [match["fallback"] for match in CHUNK.finditer(text) if match["fallback"] != "no"]


def parse_trace(text: str) -> dict[str, int]:
    """Return the chunks in the text of a trace file, and how many of them went one by one."""
    return {"chunks": len(CHUNK.findall(text)), "serial_chunks": len(fallbacks(text))}


class BulkTrace(EventTrace):
    """Records the chunks of transitions in a trace instance of its own."""

    def __init__(self, fs: Sysfs, tracing: str) -> None:
        super().__init__(fs, tracing, INSTANCE, (EVENT,))

    def read(self) -> dict[str, int]:
        """Return the counts so far."""
        return parse_trace(self.text())
