"""inventory/lab.yml: the running guests, for Ansible."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotplug_common import lock
from hotplug_common.arch import ARCHES
from hotplug_common.guest import ssh
from hotplug_common.guest.qemu import CONSOLE_LOG
from hotplug_common.guest.seed import CLIENT_KEY
from hotplug_common.paths import Paths
from lpar_lab import state
from lpar_lab.state import State

ALL_HOSTS = "smt_hosts"
Scalar = str | int | bool


def host_variables(folder: Path, guest: State) -> dict[str, Scalar]:
    """Return what Ansible needs to reach one guest, and whether its seconds are emulated ones."""
    emulated = guest.accel == "tcg"
    return {
        "ansible_host": ssh.HOST,
        "ansible_port": guest.ssh_port,
        "ansible_user": ssh.USER,
        "ansible_ssh_private_key_file": str(folder / CLIENT_KEY),
        "ansible_ssh_common_args": shlex.join(["-F", "/dev/null", *ssh.options(folder)]),
        "ansible_python_interpreter": "/usr/bin/python3",
        "lab_guest": guest.name,
        "lab_emulated": emulated,
        "ab_emulated": emulated,
        "ab_console_log": str(folder / CONSOLE_LOG),
    }


def render(groups: Mapping[str, Mapping[str, Mapping[str, Scalar]]]) -> str:
    """Render groups of hosts as YAML; every scalar is quoted the JSON way, which YAML reads too."""
    lines = ["# Written by lpar-lab: the running guests. Changes are lost at the next up or down.", "all:"]
    lines += ["  children:", f"    {ALL_HOSTS}:", "      children:"]
    lines += [f"        {group}: {{}}" for group in groups]
    for group, hosts in groups.items():
        lines.append(f"    {group}:")
        lines.append("      hosts:" if hosts else "      hosts: {}")
        for host, variables in hosts.items():
            lines.append(f"        {host}:")
            lines += [f"          {key}: {json.dumps(value)}" for key, value in variables.items()]
    return "\n".join(lines) + "\n"


def groups_of(guests: Sequence[tuple[Path, State]]) -> dict[str, dict[str, dict[str, Scalar]]]:
    """Sort guests into the inventory's groups by architecture."""
    groups: dict[str, dict[str, dict[str, Scalar]]] = {arch.inventory_group: {} for arch in ARCHES.values()}
    for folder, guest in guests:
        groups[ARCHES[guest.arch].inventory_group][guest.name] = host_variables(folder, guest)
    return groups


def refresh(paths: Paths) -> Path:
    """Write the inventory anew from the guests that are running now; return its path."""
    with lock.held(paths.locks / "inventory.lock", lambda _line: None, "the inventory"):
        guests = [(folder, guest) for folder, guest in state.all_in(paths.guests) if state.is_running(guest)]
        paths.inventory.parent.mkdir(parents=True, exist_ok=True)
        fresh = paths.inventory.with_name(f".{paths.inventory.name}.new")
        fresh.write_text(render(groups_of(guests)))
        fresh.rename(paths.inventory)
    return paths.inventory
