"""The records that runs leave on a host, and who holds the host by the lock among them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hotplug_host.sysfs import BOOT_ID, Sysfs

LOCK = "lock.json"
#: The state before the first switch of this boot that a run did and left.
APPLIED = "applied.json"
#: Its key for what makes the switch hold after a reboot.
PERSISTS = "persists"
APPLIED_KEYS = ("boot_id", "smt_level", "online")
#: What the record in a lock always has.
LOCK_KEYS = ("owner", "started", "token")


def read_record(path: Path, keys: Sequence[str]) -> dict[str, Any] | None:
    """Return the record of a run in a file, None without one; of a damaged one KEYS are unknown."""
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    return record if isinstance(record, dict) else dict.fromkeys(keys, "unknown")


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Put a record in the place of the one there is, in one step; its directory is made."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.replace(path)


def read_applied(fs: Sysfs, staging: Path) -> dict[str, Any] | None:
    """Return the record of a switch that a run left; None where it ended with an earlier boot."""
    record = read_record(staging / APPLIED, APPLIED_KEYS)
    if record is None:
        return None
    holds = PERSISTS in record or record.get("boot_id") == fs.read_optional(BOOT_ID)
    return record if holds else None


def describe_holder(lock: Mapping[str, Any], now: datetime | None = None) -> str:
    """Return who holds the host, and since when."""
    started = str(lock.get("started"))
    said = f"{lock.get('owner')} has been using this host since {started}"
    try:
        begun = datetime.strptime(started, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return said
    hours = ((now or datetime.now(timezone.utc)) - begun).total_seconds() / 3600
    return f"{said}, {f'{hours:.0f} hours' if hours < 48 else f'{hours / 24:.0f} days'} ago"
