"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from hotplug_common import boots, stats


def row(cells: Iterable[str]) -> str:
    """One row of a table."""
    return f"| {' | '.join(cells)} |"


def heading(titles: list[str]) -> list[str]:
    """Return the first two rows."""
    return [row(titles), row(["---"] * len(titles))]


def slower(effect: stats.Effect | boots.Effect, digits: int) -> str:
    """By how many percent a variant's median is above the baseline's, with the interval."""
    interval = effect.interval_percent
    ends = f" ({-interval.high:+.{digits}f} to {-interval.low:+.{digits}f}%)" if interval else ""
    return f"{-effect.median_decrease_percent:+.{digits}f}%{ends}"
