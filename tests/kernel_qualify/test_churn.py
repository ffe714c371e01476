"""`kernel-qualify churn`: the hypervisor of the test acts when the guest's kernel has followed."""

from pathlib import Path
from typing import Any

import pytest

from hotplug_common.guest import qmp, slots
from hotplug_common.guest.slots import Slot
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify.commands.churn import STAY, Hypervisor

BASE, MORE = list(range(16)), list(range(24))


class Emulator:
    """Places for cores, of which two are taken."""

    def __init__(self) -> None:
        self.taken = [0, 8]
        self.refuses = False

    def read(self, _: Path) -> list[Slot]:
        return [
            Slot(core, "cpu", 8, f"device{core}" if core in self.taken else None) for core in (0, 8, 16, 24)
        ]

    def fill(self, _: Path, slot: Slot) -> None:
        if self.refuses:
            raise qmp.QmpError("device_add: busy")
        assert slot.device is None
        self.taken.append(slot.core)

    def clear(self, _: Path, slot: Slot) -> None:
        assert slot.device == f"device{slot.core}"
        self.taken.remove(slot.core)


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    found = Emulator()
    for name in ("read", "fill", "clear"):
        monkeypatch.setattr(slots, name, getattr(found, name))
    return found


def switch(present: list[int]) -> dict[str, Any]:
    return {"kind": "switch", "present": present}


def until_acted(hypervisor: Hypervisor, emulator: Emulator, present: list[int]) -> int:
    """Report switches until a core comes or goes; return how many it took."""
    before = list(emulator.taken)
    for number in range(1, 20):
        hypervisor.hears(switch(present))
        if emulator.taken != before:
            return number
    raise AssertionError("no core comes or goes")


def test_cores_come_and_go_in_turns_beside_switches_in_both_directions(
    emulator: Emulator, tmp_path: Path
) -> None:
    hypervisor = Hypervisor(2, lambda _: None, tmp_path)
    took = []
    for present, taken in ((BASE, [0, 8, 16]), (MORE, [0, 8]), (BASE, [0, 8, 16]), (MORE, [0, 8])):
        took.append(until_acted(hypervisor, emulator, present))
        assert emulator.taken == taken
    assert {number % 2 for number in took} == {0, 1}
    assert set(took) == {stay + 1 for stay in STAY}
    for _ in range(20):
        hypervisor.hears(switch(BASE))
    assert emulator.taken == [0, 8]


def test_a_core_that_the_kernel_has_not_taken_yet_is_waited_for(emulator: Emulator, tmp_path: Path) -> None:
    hypervisor = Hypervisor(1, lambda _: None, tmp_path)
    until_acted(hypervisor, emulator, BASE)
    for _ in range(20):
        hypervisor.hears(switch(BASE))
    assert emulator.taken == [0, 8, 16]
    hypervisor.hears({"kind": "machine", "present": MORE})
    until_acted(hypervisor, emulator, MORE)


def test_a_refusal_of_the_emulator_ends_the_test(emulator: Emulator, tmp_path: Path) -> None:
    emulator.refuses = True
    with pytest.raises(ToolError, match="QEMU: device_add: busy") as caught:
        until_acted(Hypervisor(1, lambda _: None, tmp_path), emulator, BASE)
    assert caught.value.code is ExitCode.GUEST
