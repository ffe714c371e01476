"""Have an SMT level that was applied hold after a reboot, or take that back.

Two ways: a unit of ours that sets the level at boot, or powerpc-utils' smtstate.service, which saves the
level at shutdown and loads it at boot. The record of the switch names it, so that a rollback undoes it, also
after a reboot.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from hotplug_host.agent.smt_state import NO_SWITCH
from hotplug_host.agent.units import Units
from hotplug_host.arguments import add_sysroot
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.holder import APPLIED, PERSISTS, read_applied, write_record
from hotplug_host.programs import find_program
from hotplug_host.sysfs import SMT_CONTROL, Sysfs
from hotplug_host.topology import read_control

UNIT = "hotplug-acceleration-smt.service"
UNITS = Units((UNIT,), UNIT, ("multi-user.target",))
TEXT = """# Written by smt_persist; a rollback takes it back.
[Unit]
Description=Set SMT to {level}, as an operator asked for
# It would set the level of the last shutdown.
After=smtstate.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={command}
"""
SMTSTATE = "smtstate.service"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--kind", choices=["unit", "smtstate", "none"], required=True, help="which way")
    parser.add_argument("--level", default="", help="on, off, or a number of threads per core")
    parser.add_argument("--staging", type=Path, required=True, help="directory of the runs' records")
    parser.add_argument("--record", type=json.loads, default={}, metavar="JSON", help="the state before")
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make it hold, or take that back; ToolError where the host has no way to."""
    fs = Sysfs(arguments.sysroot)
    record = read_applied(fs, arguments.staging) or arguments.record
    was = record.get(PERSISTS) or {}
    now: dict[str, Any] = {}
    changed = False
    units = {UNIT: text_of(fs, arguments.level)} if arguments.kind == "unit" else {}
    if arguments.dry_run:
        changed = would_change(fs, was, arguments.kind, units)
        return {"changed": changed, "before": was.get("kind", "none"), "now": arguments.kind}
    if was and was["kind"] != arguments.kind:
        changed = take_back(fs, was)
    if units:
        changed = UNITS.write(arguments.sysroot, units) or changed
        now = {"kind": "unit"}
    elif arguments.kind == "smtstate":
        enabled = not has_smtstate()
        if enabled:
            enable_smtstate()
        changed = enabled or changed
        now = {"kind": "smtstate", "enabled": enabled or bool(was.get("enabled"))}
    if record or now:
        others = {key: value for key, value in record.items() if key != PERSISTS}
        write_record(arguments.staging / APPLIED, {**others, PERSISTS: now} if now else others)
    return {"changed": changed, "before": was.get("kind", "none"), "now": arguments.kind}


def would_change(fs: Sysfs, was: dict[str, Any], kind: str, units: dict[str, str]) -> bool:
    """Return whether a run would change the host; ToolError where the host has no way to."""
    if was and was["kind"] != kind:
        return bool(UNITS.there(fs.root)) if was["kind"] == "unit" else bool(was.get("enabled"))
    if kind == "smtstate":
        return not has_smtstate()
    return bool(units) and not UNITS.written(fs.root, units)


def text_of(fs: Sysfs, level: str) -> str:
    """Return our unit. Through ppc64_cpu where the kernel switches nothing by smt/control."""
    if read_control(fs) not in NO_SWITCH:
        return TEXT.format(level=level, command=f"/bin/sh -c 'echo {level} > {SMT_CONTROL}'")
    tool = find_program("ppc64_cpu")
    if tool is None:
        raise ToolError(f"neither {SMT_CONTROL} nor ppc64_cpu can set SMT at boot")
    return TEXT.format(level=level, command=f"{tool} --smt={level}")


def has_smtstate() -> bool:
    """Return whether powerpc-utils keeps the level. ToolError on a host without it."""
    state = subprocess.run(["systemctl", "is-enabled", SMTSTATE], capture_output=True, text=True, check=False)
    if state.stdout.strip() == "enabled":
        return True
    if state.stdout.strip() not in ("disabled", "indirect"):
        raise ToolError(
            f"{SMTSTATE} is not on the host", "install powerpc-utils, or use smt_switch_persist=unit"
        )
    return False


def enable_smtstate() -> None:
    """Have powerpc-utils keep the level; ToolError where systemctl refuses."""
    done = subprocess.run(["systemctl", "enable", SMTSTATE], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"systemctl enable {SMTSTATE} failed: {done.stderr.strip()}", code=ExitCode.OPERATION)


def take_back(fs: Sysfs, was: dict[str, Any]) -> bool:
    """Undo what WAS done; whether that changed the host."""
    if was["kind"] == "unit":
        return UNITS.remove(fs.root)
    if was.get("enabled"):
        subprocess.run(["systemctl", "disable", SMTSTATE], capture_output=True, check=False)
        return True
    return False
