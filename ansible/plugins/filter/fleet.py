"""What a run through many hosts decides, as filters of the collection."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

FORM = "%Y-%m-%dT%H:%M"


def fleet_window_problem(end: str) -> str:
    """Return what is wrong with a window's END, with its next step; empty for a time, and for none."""
    try:
        # strptime() takes 4:5, too, and times of the full form only are in the order of their texts.
        is_time = not end or datetime.strptime(end, FORM).strftime(FORM) == end
    except ValueError:
        is_time = False
    if not is_time:
        return f"fleet_window_end is '{end}'; give a time as 2026-11-26T04:30, or leave it out"
    return ""


def fleet_has_time(end: str, minutes: int, now: float) -> bool:
    """Return whether a host that takes so many MINUTES from NOW, seconds since 1970, is ready by END.

    Where there is no END, there is time; where the minutes are not known (0), there is none.
    """
    ready = datetime.fromtimestamp(now) + timedelta(minutes=minutes)
    return not end or (minutes > 0 and ready.strftime(FORM) <= end)


FILTERS: tuple[Callable[..., Any], ...] = (fleet_window_problem, fleet_has_time)


class FilterModule:
    """What Ansible takes filters from."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {one.__name__: one for one in FILTERS}
