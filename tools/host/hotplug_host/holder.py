"""The records that runs leave on a host, and who holds the host by the lock among them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LOCK = "lock.json"
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


def describe_holder(lock: Mapping[str, Any]) -> str:
    """Return who holds the host, and since when."""
    return f"{lock.get('owner')} has been using this host since {lock.get('started')}"
