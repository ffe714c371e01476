"""Two rows of the table of RCU variants in a small guest: those that need no kernel of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.labtools import Lab

# The stock kernel and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(2700)]

GUEST = "rcu"
SHAPE = ("--cores", "2", "--threads", "2")
SWITCHED = 3
"""All CPUs but the first."""


@pytest.fixture(scope="module")
def rows(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The rows of the table: off, then on."""
    results = tmp_path_factory.mktemp("rcu-variants")
    stock = lab.must("build-kernel", "--print-artifact", timeout=2400).strip()
    lab.must("up", GUEST, *SHAPE, timeout=2400)
    variables = {
        "rcu_variants_artifacts": {"stock": stock},
        "rcu_variants_rows": ["stock", "rcu_expedited"],
        "ab_iterations": 1,
        "ab_repeat": 1,
        "ab_settle": 0,
        "ab_results_dir": str(results),
    }
    done = lab.play("rcu_variants.yml", GUEST, variables)
    assert done.returncode == 0, done.stdout[-4000:]
    table: Path = results / "table" / GUEST / "rcu-variants.json"
    found: list[dict[str, Any]] = json.loads(table.read_text())["rows"]
    return found


def test_both_rows_are_measured_both_ways_under_two_boots_each(rows: list[dict[str, Any]]) -> None:
    assert [(row["direction"], row["variant"], row["n"], row["boots"]) for row in rows] == [
        ("off", "stock", 2, 2),
        ("off", "rcu_expedited", 2, 2),
        ("on", "stock", 2, 2),
        ("on", "rcu_expedited", 2, 2),
    ]
    assert all(row["emulated"] and row["mean_s"] > 0 for row in rows)


def test_every_wait_is_expedited_in_the_row_that_says_so_and_none_in_the_other(
    rows: list[dict[str, Any]],
) -> None:
    stock_off, expedited_off, stock_on, expedited_on = rows
    assert stock_off["synchronize_rcu"] >= 2 * SWITCHED, "cpuidle's and the scheduler's, for each CPU"
    assert stock_on["synchronize_rcu"] >= SWITCHED, "cpuidle's, for each CPU"
    for row in (stock_off, stock_on):
        assert row["synchronize_rcu_expedited"] == 0
    for row in (expedited_off, expedited_on):
        assert row["synchronize_rcu_expedited"] >= row["synchronize_rcu"] >= SWITCHED
    assert [row["stop_machine"] for row in (stock_off, expedited_off)] == [SWITCHED] * 2


def test_the_guest_is_as_it_was(rows: list[dict[str, Any]], lab: Lab) -> None:
    assert rows
    asked = (
        "cat /sys/kernel/rcu_expedited /sys/devices/system/cpu/online /proc/cmdline;"
        " ls /var/lib/hotplug-acceleration"
    )
    setting, online, *rest = lab.run("ssh", GUEST, "--", asked, timeout=120).stdout.split()
    assert (setting, online) == ("0", "0-3")
    assert not [
        word for word in rest if word.startswith("hotplug_acceleration.") or word in ("stage", "lock.json")
    ]
    lab.must("down", GUEST)
