"""What `status` shows: the state file, QEMU's run state, and what the console says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hotplug_common.guest import console, qemu
from lpar_lab import cores, lifecycle
from lpar_lab.state import State

GONE = "gone"
"""Run state of a guest whose QEMU ended on its own; `down` removes what it left."""


def describe(folder: Path, guest: State) -> dict[str, Any]:
    """Describe one guest, ready for JSON."""
    verdict = console.classify_file(folder / qemu.CONSOLE_LOG)
    fields = asdict(guest)
    del fields["start_ticks"]
    running = lifecycle.is_running(guest)
    return fields | {
        "cpus": cores.cpus_now(folder, guest) if running else guest.cpus,
        "state": lifecycle.machine_status(folder) if running else GONE,
        "folder": str(folder),
        "console": {
            "log": str(folder / qemu.CONSOLE_LOG),
            "verdict": verdict.severity.label,
            "findings": [
                {"line": found.line, "name": found.name, "severity": found.severity.label, "text": found.text}
                for found in verdict.findings
            ],
        },
    }


def table(reports: Sequence[dict[str, Any]]) -> str:
    """Render descriptions for people, one line a guest."""
    if not reports:
        return "no guests"
    return "\n".join(
        f"{row['name']:<16} {row['state']:<10} {row['arch']:<8} {row['cpus']:>5} CPUs  "
        f"port {row['ssh_port']:<6} console {row['console']['verdict']:<8} {row['release']}"
        for row in reports
    )
