"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def row(cells: Iterable[str]) -> str:
    """One row of a table."""
    return f"| {' | '.join(cells)} |"


def heading(titles: list[str]) -> list[str]:
    """The first two rows."""
    return [row(titles), row(["---"] * len(titles))]
