"""The table of exit codes, from the codes and their meanings in the code."""

from __future__ import annotations

from hotplug_host.errors import ExitCode
from hotplug_timer.manual.exitcodes import MEANINGS


def table() -> str:
    """Return a row per exit code: number, name, meaning."""
    rows = [f"| {int(code)} | `{code.name}` | {MEANINGS[code]} |" for code in ExitCode]
    return "\n".join(["| code | name | meaning |", "|---|---|---|", *rows])
