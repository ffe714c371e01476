"""Which teardown callbacks begin while CPUs have parked their threads, by the tracepoints of CPU hotplug.

A CPU whose threads are parked runs no softirqs and RCU callbacks where those have threads of their own. A
callback that waits for them may wait without end.
"""

from __future__ import annotations

import re
from typing import Any

from hotplug_host.timing.eventtrace import EventTrace
from hotplug_host.timing.tracing import STATE_EVENTS
from kernel_qualify.guest import machine

ENTER = re.compile(
    r": cpuhp_(?:multi_)?enter: cpu: (?P<cpu>\d+) target: *\d+ step: *(?P<step>\d+) \((?P<function>[^)]*)\)"
)
PARKS = "smpboot_park_threads"
TAKES_DOWN = "takedown_cpu"
KICKS = "cpuhp_kick_ap_work"
"""Not a callback: the controlling CPU lets a CPU run callbacks of its own."""


class Parking:
    """Records the callbacks of a switch to off."""

    def __init__(self) -> None:
        machine.mount_tracing()
        self._trace = EventTrace(machine.HOST, str(machine.TRACING), "kernel-qualify-parking", STATE_EVENTS)
        self._trace.start()

    def facts(self) -> dict[str, Any]:
        """Stop; return how many CPUs parked their threads, and which callbacks began meanwhile."""
        self._trace.pause()
        text, lost = self._trace.text(), self._trace.lost()
        self._trace.stop()
        return {"parked": parked(text), "strays": strays(text), "lost": lost}


def parked(text: str) -> int:
    """Return how often a CPU parked its threads, from the text of a trace."""
    return sum(match["function"] == PARKS for match in ENTER.finditer(text))


def strays(text: str) -> list[str]:
    """Return the callbacks that began after a CPU parked its threads and before CPUs were taken down.

    Callbacks that come after parking on a CPU's way down, which only CPUs with parked threads run, are none.
    """
    found = []
    step = None
    for match in ENTER.finditer(text):
        if match["function"] == PARKS:
            step = int(match["step"])
        elif match["function"] == TAKES_DOWN:
            step = None
        elif step is not None and int(match["step"]) > step and match["function"] != KICKS:
            found.append(f"{match['function']} of CPU {int(match['cpu'])}")
    return found
