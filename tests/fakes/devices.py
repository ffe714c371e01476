"""A sysfs of disks and network interfaces, for what reads which drivers a host needs."""

from __future__ import annotations

import os
from pathlib import Path


class Tree:
    """A sysfs with the shapes of the kernel's: devices, and links to them from the classes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, text: str = "") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, name: str, target: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.root / target).mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(self.root / target, path.parent))

    def driven(self, path: str, driver: str, modalias: str = "") -> str:
        self.put(f"sys/devices/{path}/modalias", modalias)
        self.link(f"sys/devices/{path}/driver", f"sys/bus/x/drivers/{driver}")
        return f"sys/devices/{path}"

    def disk(self, name: str, device: str, *partitions: str) -> None:
        block = f"{device}/block/{name}"
        self.link(f"{block}/device", device)
        self.link(f"sys/class/block/{name}", block)
        for partition in partitions:
            self.put(f"{block}/{partition}/partition", "1")
            self.link(f"sys/class/block/{partition}", f"{block}/{partition}")
            self.put(f"dev/{partition}")

    def dm(self, name: str, uuid: str, mapped: str, *slaves: str) -> None:
        base = f"sys/devices/virtual/block/{name}"
        self.put(f"{base}/dm/uuid", uuid)
        self.link(f"sys/class/block/{name}", base)
        for slave in slaves:
            self.link(f"{base}/slaves/{slave}", f"sys/class/block/{slave}")
        self.put(f"dev/{name}")
        (self.root / "dev/mapper").mkdir(exist_ok=True)
        (self.root / "dev/mapper" / mapped).symlink_to(f"../{name}")

    def net(self, name: str, device: str = "", *lower: str, mark: str = "", uevent: str = "") -> None:
        base = f"sys/class/net/{name}"
        self.put(f"{base}/operstate", "up\n")
        self.put(f"{base}/uevent", uevent)
        if device:
            self.link(f"{base}/device", device)
        if mark:
            self.put(f"{base}/{mark}/x")
        for one in lower:
            self.put(f"{base}/lower_{one}")
