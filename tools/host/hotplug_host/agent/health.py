"""Look how a host does, or compare with how it did before: services, file systems, links, protection.

A kernel that answers may still have come up without its firewall, a mount or half of its links.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hotplug_host.arguments import add_sysroot
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.preflight.hardware import FIREWALL, KDUMP, SELINUX
from hotplug_host.preflight.system import (
    CRASH_LOADED,
    FADUMP,
    SELINUX_ENFORCES,
    read_links_up,
    read_mounts,
)
from hotplug_host.programs import find_program, output_of
from hotplug_host.sysfs import Sysfs

#: Seconds that a boot may still take after the host answers.
BOOT_S = 600
#: Seconds that the first answers of time servers may take after that.
CLOCK_S = 120
#: The services that load kdump's kernel: of the RHEL family and SLES, and of Debian.
KDUMP_UNITS = ("kdump.service", "kdump-tools.service")


@dataclass(frozen=True)
class Health:
    """How a host does. Lists are sorted."""

    failed: tuple[str, ...]
    """Units that have failed."""
    running: tuple[str, ...]
    """Services that start with the host, and are active."""
    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    """Mount points of file systems on devices or servers, by how they are mounted."""
    links: tuple[str, ...]
    """Network interfaces that are up."""
    enforces: bool
    """Whether SELinux enforces its policy."""
    filters: bool
    """Whether nftables has rules."""
    dumps: bool
    """Whether a crash would leave a dump."""
    synchronized: bool
    """Whether the clock follows that of a time server."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--before", type=json.loads, metavar="JSON", help="how the host did then")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="NAME",
        help=f"a unit, mount or link, or {SELINUX}, {FIREWALL} or {KDUMP}",
    )
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Look; ToolError (OPERATION) when something of before is not as it was."""
    fs, before = Sysfs(arguments.sysroot), arguments.before
    if before is None:
        return {"changed": False, "health": asdict(read_health(fs))}
    _wait_for_boot()
    if before["synchronized"]:
        _wait_for_clock()
    now = read_health(fs)
    worse = list(differences(from_record(before), now, arguments.ignore))
    if worse:
        why = f"the host does worse than before: {', '.join(worse)}"
        raise ToolError(why, code=ExitCode.OPERATION, answer={"worse": worse})
    return {"changed": False, "health": asdict(now), "worse": worse}


def from_record(record: Mapping[str, Any]) -> Health:
    """Return what `asdict` made a record of, and JSON lists of its tuples."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
    return Health(**values)


def read_health(fs: Sysfs) -> Health:
    """Ask systemd, the kernel and nft."""
    mounts = {
        place: mount.read_only
        for place, mount in read_mounts(fs).items()
        if mount.source.startswith("/") or ":" in mount.source
    }
    enabled = _units("list-unit-files", "--type=service", "--state=enabled")
    return Health(
        failed=_units("list-units", "--state=failed"),
        running=tuple(sorted(set(enabled) & set(_units("list-units", "--type=service", "--state=active")))),
        writable=tuple(sorted(place for place, read_only in mounts.items() if not read_only)),
        read_only=tuple(sorted(place for place, read_only in mounts.items() if read_only)),
        links=tuple(read_links_up(fs)),
        enforces=fs.read_optional(SELINUX_ENFORCES) == "1",
        filters=_has_rules(),
        dumps=any(fs.read_optional(name) == "1" for name in (CRASH_LOADED, *FADUMP)),
        synchronized=_is_synchronized(),
    )


def differences(before: Health, now: Health, ignored: Sequence[str] = ()) -> Iterator[str]:
    """Yield, in words, what is worse than before, but for what is IGNORED, by its name."""
    ignored = [*ignored, *(KDUMP_UNITS if KDUMP in ignored else ())]
    gone = set(before.writable + before.read_only) - set(now.writable + now.read_only)
    for what, names in (
        ("failed", set(now.failed) - set(before.failed)),
        ("not running", set(before.running) - set(now.running) - set(now.failed)),
        ("not mounted", gone),
        ("mounted read-only", set(now.read_only) & set(before.writable) - set(before.read_only)),
        ("link down", set(before.links) - set(now.links)),
    ):
        for name in sorted(names - set(ignored)):
            yield f"{what}: {name}"
    for text, name, was, still in (
        ("SELinux does not enforce", SELINUX, before.enforces, now.enforces),
        ("no firewall rules", FIREWALL, before.filters, now.filters),
        ("a crash leaves no dump", KDUMP, before.dumps, now.dumps),
        ("the clock follows no time server", "", before.synchronized, now.synchronized),
    ):
        if was and not still and name not in ignored:
            yield text


def _wait_for_boot() -> None:
    """Wait until systemd has started all it starts; what is still not done then shows below."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            ["systemctl", "is-system-running", "--wait"], capture_output=True, check=False, timeout=BOOT_S
        )


def _wait_for_clock() -> None:
    """Wait until the clock follows a time server, or for as long as that may take."""
    end = time.monotonic() + CLOCK_S
    while not _is_synchronized() and time.monotonic() < end:
        time.sleep(1)


def _is_synchronized() -> bool:
    return output_of(["timedatectl", "show", "--property=NTPSynchronized", "--value"]) == "yes"


def _units(*words: str) -> tuple[str, ...]:
    """Return the units that systemctl lists, sorted; none on a host without it."""
    printed = output_of(["systemctl", *words, "--plain", "--no-legend", "--no-pager"]) or ""
    return tuple(sorted(line.split()[0] for line in printed.splitlines() if line.split()))


def _has_rules() -> bool:
    program = find_program("nft")
    return bool(program and output_of([program, "list", "ruleset"]))
