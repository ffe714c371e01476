"""Who holds a host, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hotplug_host.holder import describe_holder

BEGUN = datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.mark.parametrize(("hours", "age"), [(0.2, "0 hours"), (31, "31 hours"), (5 * 24 + 1, "5 days")])
def test_the_age_of_a_lock_is_told(hours: float, age: str) -> None:
    lock = {"owner": "root@desk", "started": "2026-11-20T08:00:00Z"}
    words = f"root@desk has been using this host since 2026-11-20T08:00:00Z, {age} ago"
    assert describe_holder(lock, BEGUN + timedelta(hours=hours)) == words


@pytest.mark.parametrize("started", ["unknown", None, "2026-11-20"])
def test_a_lock_without_a_time_has_no_age(started: object) -> None:
    words = f"root@desk has been using this host since {started}"
    assert describe_holder({"owner": "root@desk", "started": started}) == words
