"""The time of day as records have it."""

from __future__ import annotations

from datetime import datetime, timezone


def now() -> str:
    """Return the time of day in UTC, ISO 8601 with milliseconds and a Z."""
    return text(datetime.now(timezone.utc))


def text(time: datetime) -> str:
    """Return a time, of any zone, the same way; OverflowError where UTC has no such year."""
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
