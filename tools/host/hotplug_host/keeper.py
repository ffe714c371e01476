"""A process that brings the CPUs back should the tool be killed while it switches them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import NoReturn

from hotplug_host.guardian import detach
from hotplug_host.restore import SavedState, put_affinities_back, restore_state
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs

RELEASED = b"r"


@contextlib.contextmanager
def kept(fs: Sysfs, saved: SavedState, affinities: Mapping[str, str], timeout_s: float) -> Iterator[None]:
    """Have CPUs and interrupts put back, within TIMEOUT_S seconds, when this process ends inside the block.

    SIGKILL included. A switch that is running then comes to its end first. A block that is left in any
    other way has put them back itself.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        _keep(fs, reading, saved, affinities, timeout_s)
    os.close(reading)
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError):  # somebody killed it
            os.write(writing, RELEASED)
        os.close(writing)
        os.waitpid(pid, 0)


def _keep(
    fs: Sysfs, reading: int, saved: SavedState, affinities: Mapping[str, str], timeout_s: float
) -> NoReturn:
    try:
        os.setsid()
        detach(fs)
        # Signals to all processes of a unit or a login are for the tool, which puts back what it switched.
        with StopRequest().installed():
            if os.read(reading, 1) != RELEASED and restore_state(fs, saved, timeout_s) is None:
                put_affinities_back(fs, affinities)
    finally:
        os._exit(0)
