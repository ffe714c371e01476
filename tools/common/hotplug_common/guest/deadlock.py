"""An emulator whose threads wait for one another, told from a kernel that hangs."""

from __future__ import annotations

import time

from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError

SECONDS = 30.0
"""An emulator whose vCPU threads all stand still for so long waits for itself: an idle kernel has timers."""
SIGN = "QEMU waits for itself"
"""What each message about it has, by which another program's is known."""


class Standstill:
    """Knows for how long no vCPU thread of the emulator with this pid has run; ask it every few seconds."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.last: int | None = None
        self.since = time.monotonic()

    def found(self) -> bool:
        """Whether none has run for SECONDS. A process that a signal has stopped does not stand still."""
        now, ran = time.monotonic(), process.threads_time_ns(self.pid)
        if ran is None or ran != self.last:
            self.last, self.since = ran, now
        return now - self.since >= SECONDS


class DeadlockError(ToolError):
    """The emulator waits for itself. `who` is the guest."""

    def __init__(self, who: str) -> None:
        super().__init__(
            f"{who}: {SIGN}: no CPU of the guest ran for {SECONDS:g} s;"
            " that is the emulator's deadlock, and not the kernel's",
            "start the guest again",
            ExitCode.GUEST,
        )
