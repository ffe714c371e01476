"""Switching a clocksource, its record, and putting back the one before."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hotplug_host.agent.clocksource import Host, apply
from hotplug_host.clocksource import CURRENT
from hotplug_host.errors import ToolError
from hotplug_host.sysfs import Sysfs
from tests.hotplug_host.agent.conftest import Step

BOOT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def clocks(tmp_path: Path) -> Path:
    """A sysroot with two clocksources, TSC in use."""
    directory = tmp_path / "sys/devices/system/clocksource/clocksource0"
    directory.mkdir(parents=True)
    (directory / "current_clocksource").write_text("tsc\n")
    (directory / "available_clocksource").write_text("tsc hpet acpi_pm \n")
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
    return tmp_path


Switch = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def clocksource(clocks: Path, step: Step) -> Switch:
    """Call the step on the host with clocksources."""
    return partial(step, "clocksource", f"--sysroot={clocks}", f"--record={clocks / 'kept/record'}")


def used(sysroot: Path) -> str:
    return (sysroot / "sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()


def kept(sysroot: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((sysroot / "kept/record").read_text())
    return found


def test_the_first_clocksource_comes_back_however_many_were_applied(
    clocks: Path, clocksource: Switch
) -> None:
    assert clocksource("--apply=hpet", "--owner=me") == (0, answer("tsc", "hpet"))
    assert kept(clocks) == {"before": "tsc", "applied": "hpet", "boot_id": BOOT, "owner": "me"}
    assert clocksource("--apply=hpet") == (0, answer("hpet", "hpet"))
    assert clocksource("--apply=acpi_pm") == (0, answer("hpet", "acpi_pm"))
    assert (kept(clocks)["before"], used(clocks)) == ("tsc", "acpi_pm")
    assert clocksource("--restore", "--dry-run") == (0, answer("acpi_pm", "tsc"))
    assert clocksource("--restore") == (0, answer("acpi_pm", "tsc"))
    assert (used(clocks), (clocks / "kept").exists()) == ("tsc", False)
    assert clocksource("--restore") == (0, answer("tsc", "tsc"))


def answer(before: str, now: str) -> dict[str, Any]:
    return {"changed": before != now, "before": before, "now": now}


def test_applying_the_first_one_is_putting_back(clocks: Path, clocksource: Switch) -> None:
    clocksource("--apply=hpet")
    assert clocksource("--apply=tsc") == (0, answer("hpet", "tsc"))
    assert not (clocks / "kept").exists()


def test_a_dry_run_writes_nothing(clocks: Path, clocksource: Switch) -> None:
    assert clocksource("--apply=hpet", "--dry-run") == (0, answer("tsc", "hpet"))
    assert (used(clocks), (clocks / "kept").exists()) == ("tsc", False)
    there = {"error": "this kernel has no clocksource hpte now, it has tsc, hpet, acpi_pm"}
    assert clocksource("--apply=hpte", "--dry-run") == (3, there)
    assert clocksource("--apply=hpte") == (3, there)


def test_what_is_switched_after_somebody_else_goes_back_to_theirs(clocks: Path, clocksource: Switch) -> None:
    clocksource("--apply=hpet")
    (clocks / "sys/devices/system/clocksource/clocksource0/current_clocksource").write_text("acpi_pm\n")
    code, said = clocksource("--restore")
    assert (code, used(clocks)) == (3, "acpi_pm")
    assert (
        "says acpi_pm, not the hpet that was applied: somebody else, or the kernel, changed it"
        in said["error"]
    )
    clocksource("--apply=tsc")
    assert kept(clocks)["before"] == "acpi_pm"


def test_a_former_clocksource_that_is_gone_is_told(clocks: Path, clocksource: Switch) -> None:
    clocksource("--apply=hpet")
    (clocks / "sys/devices/system/clocksource/clocksource0/available_clocksource").write_text(
        "hpet acpi_pm\n"
    )
    assert clocksource("--restore") == (
        3,
        {"error": "this kernel has no clocksource tsc now, it has hpet, acpi_pm"},
    )
    assert (used(clocks), kept(clocks)["before"]) == ("hpet", "tsc")


@pytest.mark.parametrize("text", ["{", "[]", '{"before": "hpet"}', None])
def test_a_record_of_another_boot_or_a_damaged_one_is_void(
    clocks: Path, clocksource: Switch, text: str | None
) -> None:
    clocksource("--apply=hpet")
    (clocks / "kept/record").write_text(text or json.dumps(kept(clocks) | {"boot_id": "another"}))
    assert clocksource("--restore") == (0, answer("hpet", "hpet"))
    assert not (clocks / "kept").exists()


def test_a_clocksource_that_is_not_taken_or_left_again_is_put_back_with_its_record(
    clocks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(Sysfs(clocks), clocks / "kept/record")
    apply(host, "hpet", "me", 0)
    before = kept(clocks)

    def stubborn(self: Sysfs, name: str, text: str) -> None:
        # As the kernel does with one unfit for high-resolution timers: nothing changes, and that is no error.
        write(self, name, "hpet" if name == CURRENT and text == "acpi_pm" else text)

    write = Sysfs.write
    with monkeypatch.context() as patched:
        patched.setattr(Sysfs, "write", stubborn)
        with pytest.raises(ToolError, match="says hpet after acpi_pm was written to it"):
            apply(host, "acpi_pm", "me", 0)
    assert (used(clocks), kept(clocks)) == ("hpet", before)

    def watchdog(_seconds: float) -> None:
        host.fs.write(CURRENT, "tsc")

    with pytest.raises(ToolError, match="the kernel left acpi_pm for tsc within 2 s"):
        apply(host, "acpi_pm", "me", 2, sleep=watchdog)
    assert (used(clocks), kept(clocks)) == ("hpet", before)


def test_switching_waits_for_no_clock_check_that_is_at_work(clocks: Path, clocksource: Switch) -> None:
    with (clocks / "sys/devices/system/clocksource/clocksource0/current_clocksource").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        code, said = clocksource("--apply=hpet")
    assert (code, said["error"]) == (
        3,
        "another clock-check --clocksource is at work; wait until it is done",
    )
    assert used(clocks) == "tsc"


def test_without_clocksources_the_missing_file_is_named(tmp_path: Path, step: Step) -> None:
    code, said = step("clocksource", f"--sysroot={tmp_path}", f"--record={tmp_path / 'r'}", "--restore")
    assert code == 3
    assert "current_clocksource: No such file or directory" in said["error"]
