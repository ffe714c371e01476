"""The judge of the RCU variants: silent about what is as it has to be, and about nothing else."""

from typing import Any

import pytest

from kernel_qualify.judge import waits

SWITCHED = 15
COUNTS = {
    ("off", "stock"): (31, 0),
    ("off", "revert-442bf3aaf55a"): (16, 0),
    ("off", "cpuidle-expedited"): (16, 15),
    ("off", "rcu_expedited"): (31, 31),
    ("on", "stock"): (16, 0),
    ("on", "revert-442bf3aaf55a"): (1, 0),
    ("on", "cpuidle-expedited"): (1, 15),
    ("on", "rcu_expedited"): (16, 16),
}


def rows(**changes: Any) -> list[dict[str, Any]]:
    """The table's rows as they were counted, with the first one's counts changed."""
    found = [
        {
            "direction": way,
            "variant": name,
            "synchronize_rcu": waited,
            "synchronize_rcu_expedited": expedited,
        }
        for (way, name), (waited, expedited) in COUNTS.items()
    ]
    found[0] |= changes
    return found


def test_what_was_counted_is_as_it_has_to_be() -> None:
    assert waits.problems(rows(), SWITCHED) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"synchronize_rcu": 16},
        {"synchronize_rcu": 46},
        {"synchronize_rcu": 29},
        {"synchronize_rcu_expedited": 15},
    ],
)
def test_a_row_that_waits_otherwise_is_named(changes: dict[str, int]) -> None:
    (problem,) = waits.problems(rows(**changes), SWITCHED)
    ((name, count),) = changes.items()
    assert problem.startswith(f"stock off: {name} was called {count} times, not ")


@pytest.mark.parametrize("key", list(COUNTS))
def test_every_row_is_looked_at(key: tuple[str, str]) -> None:
    bad = rows()
    for row in bad:
        if (row["direction"], row["variant"]) == key:
            row["synchronize_rcu"] = 99
    assert len(waits.problems(bad, SWITCHED)) == 1
