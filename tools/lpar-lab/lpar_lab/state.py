"""A guest's state file, and the rule that only a process this tool started is ever touched."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hotplug_common import process
from hotplug_common.process import Identity
from hotplug_host.errors import ExitCode, ToolError

FILE = "state.json"
SCHEMA = "lpar-lab/guest/1"
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")


@dataclass(frozen=True)
class State:
    """What is written down about a running guest. Memory in MiB, `started` in ISO 8601."""

    name: str
    arch: str
    cores: int
    """Cores at its start."""
    threads: int
    memory: int
    accel: str
    ssh_port: int
    release: str
    """Release of the default kernel."""
    kernel: str
    started: str
    pid: int
    start_ticks: int
    added: int = 0
    """Cores added while it ran, those that were removed again included."""

    @property
    def cpus(self) -> int:
        """Logical CPUs at its start, with every thread online."""
        return self.cores * self.threads

    @property
    def identity(self) -> Identity:
        """The QEMU process."""
        return Identity(self.pid, self.start_ticks)


def check_name(name: str) -> str:
    """Return `name`; ToolError (USAGE) unless it can be a host name and a folder name."""
    if not NAME.fullmatch(name):
        raise ToolError(
            f"'{name}' cannot be a guest's name",
            "use up to 32 lower-case letters, digits and inner hyphens",
            ExitCode.USAGE,
        )
    return name


def save(folder: Path, state: State) -> None:
    """Write the state file in one step."""
    fresh = folder / f"{FILE}.new"
    fresh.write_text(json.dumps({"schema": SCHEMA} | asdict(state), indent=2) + "\n")
    fresh.rename(folder / FILE)


def load(folder: Path) -> State | None:
    """Read the state file; None when there is none.

    Raises ToolError (INPUT) when it is not ours.
    """
    file = folder / FILE
    try:
        data: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ToolError(f"{file} cannot be read: {error}", f"remove {folder}", ExitCode.INPUT) from error
    try:
        if data.pop("schema", None) != SCHEMA:
            raise ValueError("wrong schema")
        return State(**data)
    except (AttributeError, TypeError, ValueError) as error:
        raise ToolError(
            f"{file} is not a guest's state of this version", f"remove {folder}", ExitCode.INPUT
        ) from error


def is_running(state: State, proc: Path = Path("/proc")) -> bool:
    """Whether the guest's QEMU runs: right pid, right start time, and a command line that names the guest."""
    if not process.is_alive(state.identity, proc):
        return False
    return f"lpar-lab-{state.name}" in process.command_line(state.pid, proc)


def stop(state: State, grace: float = process.STOP_GRACE_S) -> None:
    """End the guest's QEMU; nothing happens when that very process is gone."""
    if is_running(state):
        process.stop(state.identity, grace)


def all_in(guests: Path) -> list[tuple[Path, State]]:
    """Return folder and state of every guest that has a state file, by name."""
    folders = sorted(guests.iterdir()) if guests.is_dir() else []
    found = ((folder, load(folder)) for folder in folders)
    return [(folder, guest) for folder, guest in found if guest]
