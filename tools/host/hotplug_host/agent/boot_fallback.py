"""Have a host leave a kernel under test by itself unless its run confirms it in time, or take that back.

A timer of systemd, which starts only on that kernel, reboots the host to its default kernel. It needs neither
the network nor the controller. It goes off once: before it reboots, it takes itself away.
"""

from __future__ import annotations

import argparse
from typing import Any

from hotplug_host.agent.units import Units
from hotplug_host.arguments import add_sysroot

TIMER = "hotplug-acceleration-fallback.timer"
SERVICE = "hotplug-acceleration-fallback.service"
#: Where it starts: with every boot that gets past the first file systems, and with one that does not.
UNITS = Units((TIMER, SERVICE), TIMER, ("sysinit.target", "emergency.target"))

TIMER_TEXT = """# Written by boot_fallback; taken back when the kernel has proven that it can be reached.
[Unit]
Description=Leave {release} unless it is confirmed
DefaultDependencies=no
{condition}

[Timer]
OnBootSec={seconds}
AccuracySec=1s
"""

SERVICE_TEXT = """# Written by boot_fallback; taken back when the kernel has proven that it can be reached.
[Unit]
Description=Leave {release}, which was not confirmed
DefaultDependencies=no

[Service]
Type=oneshot
Environment=SYSTEMCTL_SKIP_AUTO_KEXEC=1
StandardOutput=journal+console
ExecStart=/bin/echo hotplug-acceleration: {words}
ExecStart=/bin/rm -f {links}
ExecStart=systemctl --no-block reboot
"""
LAST_WORDS = "{release} was not confirmed within {seconds} s, rebooting to the default kernel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--action", choices=["arm", "disarm"], required=True, help="what to do")
    parser.add_argument("--release", default="", help="uname -r of the kernel to leave")
    parser.add_argument("--variant", default="", help="its tag; empty for one that has none")
    parser.add_argument("--seconds", type=int, default=0, help="how long after its start")
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arm it, or disarm it; OSError when the units cannot be written or systemctl is missing."""
    root = arguments.sysroot
    if arguments.action == "disarm":
        return {"changed": bool(UNITS.there(root)) if arguments.dry_run else UNITS.remove(root)}
    units = texts(arguments.release, arguments.variant, arguments.seconds)
    return {"changed": not UNITS.written(root, units) if arguments.dry_run else UNITS.write(root, units)}


def texts(release: str, variant: str, seconds: int) -> dict[str, str]:
    """Return the units by their names; they are read by the next boot."""
    condition = (
        f"ConditionKernelCommandLine=hotplug_acceleration.variant={variant}"
        if variant
        else f"ConditionKernelVersion={release}"
    )
    words = {"release": release, "seconds": seconds, "condition": condition}
    words["links"] = " ".join(f"/{link}" for link in UNITS.links())
    words["words"] = LAST_WORDS.format(**words)
    return {SERVICE: SERVICE_TEXT.format(**words), TIMER: TIMER_TEXT.format(**words)}
