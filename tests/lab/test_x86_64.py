"""A small x86-64 guest: SMT switched by smt/control, and clocks.yml, as it has three clocksources.

Its kernel takes as long to build as all of the POWER guests' tests take: so it is one of the tests of hosts.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hotplug_timer.reader import read_files
from tests.lab.labtools import Lab, switch

# An x86-64 kernel and base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(2700)]

GUEST = "pc"
SHAPE = ("--cores", "2", "--threads", "2")
# On a busy machine the guest's kernel would leave TSC some time while the test runs.
STEADY = ("--append", "tsc=reliable")
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
ASK = f"cat {CLOCKSOURCE}/*_clocksource; ls /var/lib/hotplug-acceleration; ls -d /tmp/clock-audit.*"
RECORD = "clocksource.json"


@dataclass(frozen=True)
class Guest:
    """What a guest uses, what there is, and what lies in the folder of runs or is left in /tmp."""

    current: str
    available: tuple[str, ...]
    left: tuple[str, ...]


def look(lab: Lab) -> Guest:
    # The third file of them, unbind_clocksource, is for writing only.
    available, current, *left = lab.run("ssh", GUEST, "--", ASK, timeout=120).stdout.splitlines()
    return Guest(current, tuple(available.split()), tuple(left))


@pytest.fixture(scope="module")
def guest(lab: Lab) -> Iterator[str]:
    lab.must("up", GUEST, "--arch", "x86_64", "--variant", "patched", *SHAPE, *STEADY, timeout=2400)
    yield GUEST
    lab.must("down", GUEST)


@dataclass(frozen=True)
class Switched:
    """The guest as found, after a clocksource was applied, and after the one before was put back."""

    results: Path
    wanted: str
    found: Guest
    applied: Guest
    restored: Guest


@pytest.fixture(scope="module")
def switched(guest: str, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Switched:
    results = tmp_path_factory.mktemp("clocks")
    found = look(lab)
    wanted = "hpet"
    short = {"clocks_calls": 20_000, "clocks_iterations": 1, "clocks_seconds": 0.1, "clocks_threads": "1,2"}
    variables = {**short, "clocks_results_dir": str(results), "clocks_apply": wanted}
    done = lab.play("clocks.yml", guest, variables)
    assert done.returncode == 0, done.stdout[-4000:]
    applied = look(lab)
    done = lab.play("clocks.yml", guest, {"clocks_restore": True})
    assert done.returncode == 0, done.stdout[-4000:]
    restored = look(lab)
    return Switched(results, wanted, found, applied, restored)


def test_the_audit_says_what_the_guest_has(switched: Switched) -> None:
    audit: dict[str, Any] = json.loads((switched.results / f"audit/{GUEST}.json").read_text())
    assert (audit["clocksource"]["current"], audit["clocksource"]["available"]) == (
        switched.found.current,
        list(switched.found.available),
    )
    assert {"hpet", "acpi_pm"} <= set(switched.found.available)
    assert (audit["host"]["machine"], audit["host"]["emulated"], audit["cpus"]) == ("x86_64", True, "0-3")
    assert "tsc" in audit["tsc"]["flags"]
    assert (audit["log"]["readable"], audit["log"]["complete"]) == (True, True)
    assert audit["recommendation"]["clocksource"] in switched.found.available
    assert audit["applied"] == {"before": switched.found.current, "now": switched.wanted}
    operations = {one["operation"]: one for one in audit["measured"]}
    assert {f"{kind}/{path}/2-threads" for kind in ("order", "scale") for path in ("vdso", "syscall")} <= set(
        operations
    )
    assert operations["order/vdso/2-threads"]["violations"] == 0


def test_the_results_can_be_compared(switched: Switched) -> None:
    runs = read_files(sorted((switched.results / f"raw/{GUEST}").iterdir())).runs
    assert [(run.clocksource, run.outcome) for run in runs] == [(switched.found.current, "complete")] * 2


def test_the_table_has_the_guest(switched: Switched) -> None:
    lines = (switched.results / "clocks.md").read_text().splitlines()
    row = next(line for line in lines if line.startswith(f"| {GUEST} "))
    assert f"| {switched.wanted} (was {switched.found.current}) |" in row


def test_the_clocksource_is_switched_and_comes_back_and_nothing_else_is_left(switched: Switched) -> None:
    assert (switched.applied.current, switched.applied.left) == (switched.wanted, (RECORD,))
    assert switched.restored == switched.found
    assert switched.found.left == ()


def test_x86_switches_through_smt_control(guest: str, lab: Lab, tmp_path: Path) -> None:
    run = switch(lab, guest, tmp_path)
    assert run.host.machine == "x86_64"
    assert {(item.driver, item.path) for item in run.iterations} == {("smt-control", "smt/control")}
    counts = [item.counts for item in run.iterations if item.counts]
    assert [(count["chunks"], count["serial_chunks"]) for count in counts] == [(1, 0)] * 2
