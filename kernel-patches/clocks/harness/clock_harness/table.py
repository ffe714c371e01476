"""What was measured, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from clock_harness.devices import Told
from clock_harness.measure import Cell, Sample
from hotplug_common.tables import NONE, Column, Sheet, Table


def speeds(cells: Sequence[Cell]) -> Sheet:
    """Return a row a number of threads: us per call of each algorithm, and processor time in brackets."""
    algorithms = list(dict.fromkeys(cell.algorithm for cell in cells))
    found = {(cell.threads, cell.algorithm): cell for cell in cells}

    def speed(algorithm: str) -> Column[int]:
        return Column(algorithm, lambda threads: _speed(found[threads, algorithm]))

    numbers = list(dict.fromkeys(cell.threads for cell in cells))
    return Sheet([Table("speeds", (Column("threads", str), *map(speed, algorithms)), numbers)])


def checks(samples: Sequence[Sample]) -> Sheet:
    """Return a row an algorithm: calls, violations of the order, and how old values were."""
    columns: list[Column[Sample]] = [
        Column("algorithm", lambda sample: sample.algorithm),
        Column("threads", lambda sample: str(sample.threads)),
        Column("calls", lambda sample: str(sample.calls)),
        Column("backwards", lambda sample: str(sample.violations)),
        Column("by at most ns", lambda sample: str(sample.worst_back_ns)),
        Column("older than 100 us", lambda sample: str(sample.old_calls)),
        Column("oldest ns", lambda sample: str(sample.oldest_ns)),
    ]
    return Sheet([Table("checks", columns, samples)])


def devices(rows: Sequence[Told]) -> Sheet:
    """Return a row a number of devices and place."""
    columns: list[Column[Told]] = [
        Column("devices", lambda row: str(row.count)),
        Column("used by", lambda row: "another CPU" if row.remote else "the same CPU"),
        Column("median us", lambda row: f"{row.us:.2f}"),
        Column("95% within", lambda row: f"{row.tail_us:.2f}"),
        Column("ns each", lambda row: f"{1000 * row.us / row.count:.1f}"),
    ]
    return Sheet([Table("devices", columns, rows)])


def _speed(cell: Cell) -> str:
    # None of the threads got to run, or not all of them together.
    if cell.us_per_call == float("inf"):
        return NONE
    return f"{cell.us_per_call:.3f} ({cell.cpu_us_per_call:.3f})"
