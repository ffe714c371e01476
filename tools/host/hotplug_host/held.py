"""Kernel settings changed inside a block, and put back on every way out of it, SIGKILL included."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import Guardian, Purpose, lock_settings
from hotplug_host.setting import Setting
from hotplug_host.sysfs import Sysfs

#: A year: more than a system call can be told to wait is a fault.
MOST_S = 365 * 86400.0


@dataclass
class Held:
    """What became of the settings: `problems` says what could not be put back."""

    guardian: Guardian | None = None
    problems: list[str] = field(default_factory=list)

    def look(self) -> None:
        """See to it that somebody holds the settings; call it once in a while."""
        if self.guardian is not None:
            self.guardian.look()

    @property
    def early(self) -> str | None:
        """Return why the settings were put back before the block was over; None when they were not."""
        return self.guardian.early if self.guardian is not None else None


@contextlib.contextmanager
def holding(
    fs: Sysfs, settings: tuple[Setting, ...], purpose: Purpose, most_s: float, held: Held
) -> Iterator[None]:
    """Change the settings inside the block. HELD says afterwards what became of them.

    A process of its own holds them, so that they come back whatever becomes of this one; after MOST_S
    seconds it puts them back unasked. ToolError (ENVIRONMENT) when they cannot be changed.
    """
    if not settings:
        yield
        return
    if fs.is_host and os.geteuid() != 0:
        raise ToolError(f"changing {purpose.what} needs root", "run it again with sudo", ExitCode.ENVIRONMENT)
    with lock_settings(fs, purpose) as lock:
        held.guardian = Guardian(fs, settings, lock, min(most_s, MOST_S), purpose)
        held.guardian.start()
        held.guardian.set()
        try:
            yield
        finally:
            held.problems = held.guardian.restore()
