"""Places for cores in a running guest: QEMU fills and empties them, as an HMC does with those of an LPAR."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hotplug_common.guest import qmp


@dataclass(frozen=True)
class Slot:
    """A place for a core, as QEMU names it."""

    core: int
    driver: str
    cpus: int
    """CPUs at this place."""
    device: str | None
    """Path of the core's device; None while the place is empty."""


def read(folder: Path) -> list[Slot]:
    """Return the places of the guest with this folder, by their numbers; QmpError as qmp has it."""
    found = [
        Slot(place["props"]["core-id"], place["type"], place["vcpus-count"], place.get("qom-path"))
        for place in qmp.execute(folder, "query-hotpluggable-cpus")
    ]
    return sorted(found, key=lambda slot: slot.core)


def fill(folder: Path, slot: Slot) -> None:
    """Add a core at an empty place; QmpError when QEMU refuses."""
    place = {"id": f"core{slot.core}", "core-id": slot.core}
    qmp.execute(folder, "device_add", {"driver": slot.driver, **place})


def clear(folder: Path, slot: Slot) -> None:
    """Ask the guest's kernel to give a core back, and remove it then; QmpError when QEMU refuses."""
    qmp.execute(folder, "device_del", {"id": slot.device})
