"""What the counts of the RCU variants have to be. Pure functions, so that each can be shown to fail."""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
SLACK = 3
"""Of so many CPUs one may cost a wait more: others wait meanwhile, and the hotplug lock now and then."""


def problems(rows: Sequence[Row], switched: int) -> list[str]:
    """Say which rows of the table did not wait as they have to; `switched` CPUs went one by one."""
    found = []
    for direction, per_cpu in (("off", 2), ("on", 1)):
        # cpuidle waits once for each CPU, and going offline the scheduler once more.
        every, cpuidle = per_cpu * switched, switched
        for name, waits, expedited in (
            ("stock", every, 0),
            ("revert-442bf3aaf55a", every - cpuidle, 0),
            # What is called expedited by name does not come by synchronize_rcu().
            ("cpuidle-expedited", every - cpuidle, cpuidle),
            ("rcu_expedited", every, every),
        ):
            row = next(row for row in rows if (row["direction"], row["variant"]) == (direction, name))
            found += _off_by(row, "synchronize_rcu", waits, switched)
            found += _off_by(row, "synchronize_rcu_expedited", expedited, switched)
    return found


def _off_by(row: Row, name: str, wanted: int, switched: int) -> list[str]:
    count = row[name]
    if wanted <= count <= wanted + switched // SLACK:
        return []
    return [f"{row['variant']} {row['direction']}: {name} was called {count} times, not {wanted}"]
