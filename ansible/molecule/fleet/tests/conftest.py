"""What the looks at the guests are held against."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

#: Where the scenario's playbooks keep what they saw and made, on the controller.
KEPT = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])


@dataclass(frozen=True)
class State:
    """What a guest runs, and which of its CPUs do."""

    release: str
    online: str
    smt: str


@pytest.fixture
def name(host: Host) -> str:
    """The guest's name, by which the inventory has it."""
    return str(host.check_output("uname -n"))


@pytest.fixture
def before(name: str) -> State:
    """What the guest was like before anything was deployed."""
    return State(*json.loads((KEPT / f"before/{name}.json").read_text()))


@pytest.fixture
def now(host: Host) -> State:
    cpus = "/sys/devices/system/cpu"
    return State(
        *(
            str(host.check_output(f"cat {path}"))
            for path in ("/proc/sys/kernel/osrelease", f"{cpus}/online", f"{cpus}/smt/control")
        )
    )


@pytest.fixture
def kernel(host: Host) -> dict[str, Any]:
    """The kernel that is for the guest's machine."""
    artifact = json.loads((KEPT / "kernels.json").read_text())[host.check_output("uname -m")]
    found: dict[str, Any] = json.loads(Path(artifact).read_text())
    return found


@pytest.fixture
def timed(name: str) -> list[dict[str, Any]]:
    """The records of the guest's timing."""
    (file,) = (KEPT / f"timing/raw/{name}").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]
