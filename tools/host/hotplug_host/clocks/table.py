"""What is printed at the end: a table of plain text, medians over the iterations."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from hotplug_host.text import aligned


def render(rows: Sequence[tuple[str, str, Sequence[Mapping[str, float]]]]) -> str:
    """Return the table of rows: variant, operation, and one mapping from heading to value per iteration."""
    headings = list(dict.fromkeys(name for _, _, cells in rows for cell in cells for name in cell))
    lines = [["clock", "operation", "n", *headings]]
    for variant, operation, cells in rows:
        values = [shown(statistics.median(cell[name] for cell in cells)) for name in headings]
        lines.append([variant, operation, str(len(cells)), *values])
    return aligned(lines, left=(0, 1))


def shown(value: float) -> str:
    """Return a number as it is read best: whole ones with thousands set apart, others with three digits."""
    if value == int(value) or abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"
