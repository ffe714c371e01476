"""What a run and a single switch begin with alike: the driver, who asks to stop, who is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from hotplug_host.lease import renew_own
from hotplug_host.progress import Progress
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.switch import Driver, choose_driver
from hotplug_host.topology import read_online


@dataclass(frozen=True)
class Session:
    """A host that is about to be switched."""

    fs: Sysfs
    stop: StopRequest
    driver: Driver
    progress: Progress


@contextmanager
def opened(fs: Sysfs, stop: StopRequest, stream: TextIO, kind: str, via: str) -> Iterator[Session]:
    """Open a session for operations of KIND and catch signals in it; ToolError when VIA cannot do them."""
    progress = Progress(1, stream, lambda: len(read_online(fs)), on_line=renew_own)
    stop.on_waiting = lambda: progress.note(
        "stop requested: waiting for the switch in progress; a second signal ends it"
    )
    with stop.installed():
        yield Session(fs, stop, choose_driver(kind, via, fs), progress)
