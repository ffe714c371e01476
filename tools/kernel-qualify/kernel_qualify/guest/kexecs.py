"""Jump from kernel to kernel, and report after each jump which CPUs are online.

Every boot of the chain starts this script. The kernel's command line carries how many jumps are left.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import record
from kernel_qualify.guest.programs import FOLDER

IMAGE = "kernel"
"""The kernel that is jumped to."""
LEFT = "qualify.kexecs"


def next_command_line(now: str) -> str:
    """Return the command line of the next kernel, which has one jump less left than `now`."""
    return re.sub(rf"\b{re.escape(LEFT)}=(\d+)", lambda found: f"{LEFT}={int(found[1]) - 1}", now)


def jumps_left(command_line: str) -> int:
    """Return the jumps that a command line leaves."""
    found = re.search(rf"\b{re.escape(LEFT)}=(\d+)", command_line)
    return int(found[1]) if found else 0


def main() -> None:
    """Report this kernel's CPUs, and jump to the next one if there are jumps left and all CPUs are there."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    now = Path("/proc/cmdline").read_text().strip()
    left = jumps_left(now)
    present, online = machine.present(), machine.online()
    record("kexec", **machine.settings(), left=left, present=present, online=online)
    # A kernel that lacks CPUs waits for them in its own kexec, and may never come to its end.
    if not left or present != online:
        return
    image = str(FOLDER / IMAGE)
    subprocess.run(["kexec", "-l", image, f"--command-line={next_command_line(now)}"], check=True)
    subprocess.run(["kexec", "-e"], check=True)
