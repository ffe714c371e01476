"""What the kernel's own tracepoints say of a bulk transition: in how many chunks the CPUs went, and how.

Kernels with the cpuhp_bulk_* tracepoints have them; elsewhere these counts are absent.
"""

from __future__ import annotations

import contextlib
import re

from hotplug_host.sysfs import Sysfs

INSTANCE = "instances/hotplug-timer-bulk"
EVENT = "events/cpuhp/cpuhp_bulk_chunk"
#: A line of the trace file; `fallback` says why the CPUs of a chunk went one by one, "no" when they did not.
CHUNK = re.compile(r": cpuhp_bulk_chunk: .* fallback: (?P<fallback>.*) ret: -?\d+ ")


def fallbacks(text: str) -> list[str]:
    """Return why the CPUs of a chunk went one by one, for each such chunk in the text of a trace file."""
    return [match["fallback"] for match in CHUNK.finditer(text) if match["fallback"] != "no"]


def parse_trace(text: str) -> dict[str, int]:
    """Return the chunks in the text of a trace file, and how many of them went one by one."""
    return {"chunks": len(CHUNK.findall(text)), "serial_chunks": len(fallbacks(text))}


class BulkTrace:
    """Records the chunks of transitions in a trace instance of its own."""

    def __init__(self, fs: Sysfs, tracing: str) -> None:
        self._fs = fs
        self._tracing = tracing

    def is_available(self) -> bool:
        """Whether this kernel has the tracepoints."""
        return self._fs.exists(self._file(EVENT))

    def start(self) -> None:
        """Begin to record; OSError as the kernel returns it."""
        self.stop()  # what a run that was killed left behind
        self._fs.mkdir(self._file(INSTANCE))
        self._fs.write(self._file(f"{INSTANCE}/{EVENT}/enable"), "1")

    def read(self) -> dict[str, int]:
        """Return the counts so far."""
        return parse_trace(self._fs.read(self._file(f"{INSTANCE}/trace")))

    def stop(self) -> None:
        """End recording and forget what was recorded; OSError as the kernel returns it."""
        if self._fs.exists(self._file(INSTANCE)):
            with contextlib.suppress(OSError):  # it may have been made and no more
                self._fs.write(self._file(f"{INSTANCE}/{EVENT}/enable"), "0")
            self._fs.rmdir(self._file(INSTANCE))

    def _file(self, name: str) -> str:
        return f"{self._tracing}/{name}"
