"""Whether the run that holds a host is alive: when it was last at work there, and how long that counts.

The controller's steps renew the lease, and so does a timing or a switch in a unit of the host, which goes on
without a controller. It is a file of its own: the lock, with the way back in it, is never written again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hotplug_host.holder import LOCK_KEYS, describe_holder, read_record, write_record
from hotplug_host.progress import format_duration
from hotplug_host.sysfs import BOOT_ID, Sysfs

LEASE = "lease.json"
#: In the environment of what works for a run: the token of its lock, a colon, and the file of the lock.
RUN = "HOTPLUG_RUN"
#: The key of a lock for how many seconds a sign of life counts.
SECONDS = "lease"


@dataclass(frozen=True)
class Moment:
    """A time of this host, by two clocks: the time of day, which may be set, and that of the boot."""

    wall: float
    boot_id: str
    uptime: float


@dataclass(frozen=True)
class Lease:
    """Seconds since the last sign of life of a run, and for how many such a sign counts."""

    age: float
    seconds: float

    @property
    def ran_out(self) -> bool:
        """Whether the run has been silent for longer than any of its steps takes."""
        return self.age > self.seconds

    def words(self) -> str:
        """Return both for people."""
        over = self.age - self.seconds
        ends = (
            f"its lease ran out {format_duration(over)} ago"
            if self.ran_out
            else f"its lease runs out in {format_duration(-over)}"
        )
        return f"last sign of life {format_duration(self.age)} ago, {ends}"


def moment() -> Moment:
    """Return the time of the system that runs, whatever root a step was given."""
    boot_id = Sysfs().read_optional(BOOT_ID) or ""
    return Moment(time.time(), boot_id, time.clock_gettime(time.CLOCK_BOOTTIME))


def age_of(sign: Moment, now: Moment) -> float:
    """Return the seconds from a sign of life to NOW.

    Within a boot the clock of the boot tells, whatever was done to the time of day. Over a boot the time of
    day has to; where it went back, the sign is at least as old as this boot.
    """
    if sign.boot_id == now.boot_id:
        return max(now.uptime - sign.uptime, 0.0)
    return max(now.wall - sign.wall, now.uptime)


def read_lease(lock: Path, held: Mapping[str, Any], now: Moment | None = None) -> Lease | None:
    """Return the lease of the run that HELD, the record in LOCK, is of; None of one without."""
    sign = read_record(lock.with_name(LEASE), ())
    try:
        if sign is None or sign["token"] != held["token"]:
            return None
        last = Moment(float(sign["wall"]), str(sign["boot_id"]), float(sign["uptime"]))
        return Lease(age_of(last, now or moment()), float(held[SECONDS]))
    except (KeyError, TypeError, ValueError):
        return None


def renew(lock: Path, token: str) -> None:
    """Note that the run with this token is at work, unless the lock is another's by now.

    Never fails: that nothing could be noted, such as on a full disk, stops no work.
    """
    held = read_record(lock, LOCK_KEYS)
    if held is not None and held.get("token") == token:
        with contextlib.suppress(OSError):
            write_record(lock.with_name(LEASE), {"token": token, **asdict(moment())})


def describe_held(lock: Path, held: Mapping[str, Any]) -> str:
    """Return who holds the host, since when, and whether that run is alive."""
    lease = read_lease(lock, held)
    return describe_holder(held) + (f"; {lease.words()}" if lease else "")


def renew_own() -> None:
    """Note that the run for which this process works is at it; of none there is nothing to note."""
    token, _, lock = os.environ.get(RUN, "").partition(":")
    if lock:
        renew(Path(lock), token)


def own_run() -> list[str]:
    """Return what of this process's environment has another one work for the same run."""
    return [f"{RUN}={os.environ[RUN]}"] if RUN in os.environ else []
