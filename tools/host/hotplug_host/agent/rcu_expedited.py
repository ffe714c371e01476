"""Set /sys/kernel/rcu_expedited, and report its value from before."""

from __future__ import annotations

import argparse
from typing import Any

from hotplug_host.arguments import add_sysroot
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import lock_settings
from hotplug_host.rcu import RCU_EXPEDITED
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.expedite import require_as_booted

#: What an operator does about a kernel that cannot be made to expedite.
WITHOUT = "leave out the variant with rcu_expedited"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--value", choices=("0", "1"), required=True, help="what the file has to contain")
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Set the value; ToolError where the kernel does not take it, or another program holds the settings."""
    fs = Sysfs(arguments.sysroot)
    before = fs.read(RCU_EXPEDITED)
    with lock_settings(fs):
        # A variant is compared with one that is not expedited: a host that has it on anyway has no such one.
        if arguments.value == "1":
            require_as_booted(fs, WITHOUT)
        if arguments.dry_run:
            return {"changed": before != arguments.value, "before": before, "now": arguments.value}
        if before != arguments.value:
            fs.write(RCU_EXPEDITED, arguments.value)
        after = fs.read(RCU_EXPEDITED)
    if after != arguments.value:
        raise ToolError(
            f"{fs.path(RCU_EXPEDITED)} says {after} after {arguments.value} was written to it",
            code=ExitCode.OPERATION,
        )
    return {"changed": before != arguments.value, "before": before, "now": after}
