"""The hosts that a run would be for, as Ansible finds them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from hotplug_host.errors import ExitCode, ToolError
from smt_fleet import playbooks

GROUP = "smt_hosts"
HINT = "see inventory/README.md"


def hosts(inventories: Sequence[str], limit: str) -> list[str]:
    """Return the group's hosts that LIMIT leaves, in Ansible's order. ToolError (INPUT) when none is."""
    command = [playbooks.program("ansible"), GROUP, "--list-hosts"]
    command += [word for path in inventories for word in ("-i", path)]
    command += ["--limit", limit] if limit else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    _, _, listed = done.stdout.partition("):\n")
    if done.returncode != 0 or not listed.split():
        among = f" and in {limit}" if limit else ""
        said = done.stderr.strip().splitlines()
        raise ToolError(
            f"no host of {', '.join(inventories)} is in the group {GROUP}{among}"
            + (f" ({said[-1].strip()})" if done.returncode and said else ""),
            HINT,
            ExitCode.INPUT,
        )
    return listed.split()
