"""clocks.yml against a small x86-64 guest, which has three clocksources: audit, another applied, put back."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hotplug_timer.reader import read_files
from tests.lab.labtools import Lab

# An x86-64 kernel and base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(2700)]

GUEST = "clocks"
SHAPE = ("--cores", "2", "--threads", "1")
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


@dataclass(frozen=True)
class Switched:
    """The guest as found, after a clocksource was applied, and after the one before was put back."""

    results: Path
    wanted: str
    found: Guest
    applied: Guest
    restored: Guest


@pytest.fixture(scope="module")
def switched(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Switched:
    results = tmp_path_factory.mktemp("clocks")
    lab.must("up", GUEST, "--arch", "x86_64", "--variant", "patched", *SHAPE, *STEADY, timeout=2400)
    found = look(lab)
    wanted = "hpet"
    short = {"clocks_calls": 20_000, "clocks_iterations": 1, "clocks_seconds": 0.1, "clocks_threads": "1,2"}
    variables = {**short, "clocks_results_dir": str(results), "clocks_apply": wanted}
    done = lab.play("clocks.yml", GUEST, variables)
    assert done.returncode == 0, done.stdout[-4000:]
    applied = look(lab)
    done = lab.play("clocks.yml", GUEST, {"clocks_restore": True})
    assert done.returncode == 0, done.stdout[-4000:]
    restored = look(lab)
    lab.must("down", GUEST)
    return Switched(results, wanted, found, applied, restored)


def test_the_audit_says_what_the_guest_has(switched: Switched) -> None:
    audit: dict[str, Any] = json.loads((switched.results / f"audit/{GUEST}.json").read_text())
    assert (audit["clocksource"]["current"], audit["clocksource"]["available"]) == (
        switched.found.current,
        list(switched.found.available),
    )
    assert {"hpet", "acpi_pm"} <= set(switched.found.available)
    assert (audit["host"]["machine"], audit["host"]["emulated"], audit["cpus"]) == ("x86_64", True, "0-1")
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
