"""Whether a host that was told to boot another kernel runs it: the waiting, and what an operator reads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

FALLBACK = "hotplug-acceleration-fallback.timer"
PAUSE = 0.5
"""Seconds between two looks at a host that does not answer."""
CONNECT_S = (2, 10)
"""Least and most seconds in which a look has to get its connection."""
BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VARIANT = re.compile(r"(?:^|\s)hotplug_acceleration\.variant=(\S+)")


@dataclass(frozen=True)
class Boot:
    """A kernel that has answered. `variant` is empty for a default kernel."""

    boot_id: str
    release: str
    variant: str


@dataclass(frozen=True)
class Wanted:
    """What is waited for: a boot other than `old_boot_id`, within so many seconds since it was asked for.

    A host that still runs the old kernel after `down_timeout` is not waited for any longer. An empty
    `release` stands for any, an empty `variant` for none.
    """

    old_boot_id: str
    release: str
    variant: str
    timeout: float
    down_timeout: float


@dataclass(frozen=True)
class Found:
    """What came of the waiting: the kernel that answered last, if any has, and the seconds it took."""

    boot: Boot | None
    waited: float


Ask = Callable[[str, float], str]
"""Runs a command on the host, for so many seconds at most; returns its output, "" of a silent host."""


def wait(ask: Ask, wanted: Wanted, now: Callable[[], float], sleep: Callable[[float], None]) -> Found:
    """Ask a host until another boot answers or its time is over; NOW gives seconds since it was told to."""
    while True:
        waited = now()
        boot = read_boot(ask(command(wanted, waited), max(wanted.timeout - waited, 1)))
        waited = now()
        if boot and boot.boot_id != wanted.old_boot_id:
            return Found(boot, waited)
        if waited >= (wanted.down_timeout if boot else wanted.timeout):
            return Found(boot, waited)
        sleep(PAUSE)


def connect_within(waited: float) -> int:
    """Return in how many seconds a look has to get its connection.

    A look that begins before the host can answer misses the moment from which it can. So it is given up
    soon while a fast boot may end, and late where a host that boots for minutes may need long to answer.
    """
    least, most = CONNECT_S
    return max(least, min(most, int(waited / 10)))


def command(wanted: Wanted, waited: float) -> str:
    """Return what a host is asked, in the folder of its root.

    It stays with a host that is going down, until its connection ends. A new kernel is kept by the command
    that meets it, as the timer of the host's own way back runs; where one is not to be kept, none runs.
    """
    left = max(min(wanted.down_timeout, wanted.timeout - PAUSE) - waited, 0)
    old = shlex.quote(wanted.old_boot_id)
    return (
        f"left={left:.0f};"
        f' while read -r id < proc/sys/kernel/random/boot_id && test "$id" = {old} && test $left -gt 0;'
        " do sleep 1; left=$((left - 1)); done;"
        f' test "$id" = {old} || systemctl stop {FALLBACK} >/dev/null 2>&1;'
        " cat proc/sys/kernel/random/boot_id proc/sys/kernel/osrelease proc/cmdline"
    )


def read_boot(output: str) -> Boot | None:
    """Return the kernel that answered; None of anything else, as comes from a host that goes down."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if len(lines) < 3 or not BOOT_ID.fullmatch(lines[0]):
        return None
    variant = VARIANT.search(lines[2])
    return Boot(lines[0], lines[1], variant[1] if variant else "")


def fault(host: str, wanted: Wanted, found: Found) -> str:
    """Return why the boot is not proven, in one line with what to do; empty where it is."""
    boot = found.boot
    if boot is None:
        return f"{host}: the host did not come back within {wanted.timeout:g} s; look at its console"
    if boot.boot_id == wanted.old_boot_id:
        return (
            f"{host}: the host never went down: {found.waited:.0f} s after the boot was asked for it still"
            f" answers with boot_id {boot.boot_id} and kernel {boot.release};"
            " look at its console and its system log"
        )
    if wanted.release in ("", boot.release) and wanted.variant == boot.variant:
        return ""
    return (
        f"{host}: the host came back with another kernel: wanted {wanted.release or 'any release'} with"
        f" {wanted.variant or 'no'} variant, found {boot.release} with {boot.variant or 'no'} variant;"
        " look at its console for why the wanted kernel did not start or did not stay up"
    )
