"""Events recorded through tracefs alone, in a trace instance of their own, and read as text."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from hotplug_host.sysfs import Sysfs


def parse_losses(text: str) -> int:
    """Return how many events a CPU's buffer lost, from its per_cpu/cpuN/stats file."""
    lost = 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("overrun", "commit overrun", "dropped events") and value.strip().isdecimal():
            lost += int(value)
    return lost


def lost_below(fs: Sysfs, per_cpu: str) -> int:
    """Return how many events the buffers of all CPUs lost, from the directory PER_CPU of a trace instance."""
    stats = (f"{per_cpu}/{path.name}/stats" for path in fs.glob(per_cpu, "cpu[0-9]*"))
    return sum(parse_losses(fs.read(name)) for name in stats)


class EventTrace:
    """Records EVENTS, each as SYSTEM/NAME, in the trace instance NAME below the directory TRACING."""

    def __init__(self, fs: Sysfs, tracing: str, name: str, events: Sequence[str]) -> None:
        self._fs = fs
        self._tracing = tracing
        self._events = events
        self._instance = f"{tracing}/instances/{name}"

    def is_available(self) -> bool:
        """Whether this kernel has the events."""
        return all(self._fs.exists(f"{self._tracing}/events/{name}") for name in self._events)

    def start(self) -> None:
        """Begin to record; OSError as the kernel returns it."""
        self.stop()  # what a run that was killed left behind
        self._fs.mkdir(self._instance)
        self._enable("1")

    def pause(self) -> None:
        """Record no more, and keep what was recorded; OSError as the kernel returns it."""
        self._enable("0")

    def text(self) -> str:
        """Return what was recorded so far, as the kernel prints it."""
        return self._fs.read(f"{self._instance}/trace")

    def lost(self) -> int:
        """Return how many events did not fit into the buffers of the CPUs."""
        return lost_below(self._fs, f"{self._instance}/per_cpu")

    def stop(self) -> None:
        """End recording and forget what was recorded; OSError as the kernel returns it."""
        if self._fs.exists(self._instance):
            with contextlib.suppress(OSError):  # it may have been made and no more
                self._enable("0")
            self._fs.rmdir(self._instance)

    def _enable(self, value: str) -> None:
        for name in self._events:
            self._fs.write(f"{self._instance}/events/{name}/enable", value)
