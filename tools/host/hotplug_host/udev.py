"""What udev does about CPUs: the programs that it runs when one comes or goes, and whether it still does."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from hotplug_host.programs import find_program
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs

RULES = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d")
"""Where rules are. A file hides those of the same name in the folders after its own."""
PAUSE_S = 1.0
"""udevadm waits for its second by itself, but one that fails at once would be asked without a pause."""
_OF_CPUS = re.compile(r'\bSUBSYSTEM=="(?:[^"]*\|)?cpu(?:\|[^"]*)?"')
_ACTION = re.compile(r'\bACTION=="([^"]*)"')
_PROGRAM = re.compile(r"\b(?:PROGRAM|RUN(?:\{program\})?)\s*\+?={1,2}")


def wait_until_idle(fs: Sysfs, stop: StopRequest, most_s: float) -> tuple[float, bool]:
    """Wait until udev has worked through its events, MOST_S seconds at most and no longer than to a stop.

    Returns the seconds that took, and whether udev is idle; a host without it is.
    """
    program = find_program("udevadm") if fs.is_host else None
    started, idle = time.monotonic(), program is None
    while program and not idle and not stop.requested and time.monotonic() - started < most_s:
        # Of the events as well that the kernel has sent and udev has not yet read.
        asked = time.monotonic()
        done = subprocess.run([program, "settle", "--timeout=1"], capture_output=True, check=False)
        idle = done.returncode == 0
        if not idle:
            stop.sleep(min(asked + PAUSE_S, started + most_s) - time.monotonic())
    return time.monotonic() - started, idle


def cpu_rules(fs: Sysfs) -> tuple[str, ...]:
    """Return the files with a rule that runs a program for each CPU that goes online or offline, sorted.

    A rule that other conditions keep from doing so counts as well.
    """
    seen: dict[str, Path] = {}
    for folder in RULES:
        for path in fs.glob(folder, "*.rules"):
            seen.setdefault(path.name, path)
    return tuple(sorted(name for name, path in seen.items() if _runs_programs(path)))


def _runs_programs(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # a link to /dev/null is empty; one that cannot be read has no rules for us
        return False
    joined = text.replace("\\\n", " ")
    return any(
        not line.lstrip().startswith("#")
        and _OF_CPUS.search(line)
        and _switches(line)
        and _PROGRAM.search(line)
        for line in joined.splitlines()
    )


def _switches(line: str) -> bool:
    """Return whether a rule is for CPUs that go online or offline; one without an action is for all."""
    actions = _ACTION.search(line)
    return actions is None or bool({"online", "offline", "*"} & set(actions[1].split("|")))
