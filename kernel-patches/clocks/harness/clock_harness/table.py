"""What was measured, as text."""

from __future__ import annotations

from collections.abc import Sequence

from clock_harness.measure import Cell, Sample


def speeds(cells: Sequence[Cell]) -> str:
    """One line a number of threads: us per call of each algorithm, and processor time in brackets."""
    algorithms = list(dict.fromkeys(cell.algorithm for cell in cells))
    rows = [["threads", *algorithms]]
    for threads in dict.fromkeys(cell.threads for cell in cells):
        found = {cell.algorithm: cell for cell in cells if cell.threads == threads}
        rows.append([str(threads), *(_speed(found[name]) for name in algorithms)])
    return aligned(rows)


def checks(samples: Sequence[Sample]) -> str:
    """One line an algorithm: calls, violations of the order, and how old values were."""
    rows = [["algorithm", "threads", "calls", "backwards", "by at most ns", "older than 100 us", "oldest ns"]]
    for sample in samples:
        numbers = (sample.violations, sample.worst_back_ns, sample.old_calls, sample.oldest_ns)
        rows.append([sample.algorithm, str(sample.threads), str(sample.calls), *map(str, numbers)])
    return aligned(rows)


def _speed(cell: Cell) -> str:
    # Nobody got to run, or not all of them together.
    if cell.us_per_call == float("inf"):
        return "-"
    return f"{cell.us_per_call:.3f} ({cell.cpu_us_per_call:.3f})"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, as wide as they have to be."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
