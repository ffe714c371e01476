"""The time of day as records have it."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """Return the time of day in UTC, ISO 8601 with milliseconds and a Z."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
