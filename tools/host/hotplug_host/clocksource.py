"""The kernel's clocksources: which there are, which one is used, and using another for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import Purpose
from hotplug_host.setting import Setting
from hotplug_host.sysfs import Sysfs

DIRECTORY = "/sys/devices/system/clocksource/clocksource0"
CURRENT, AVAILABLE = f"{DIRECTORY}/current_clocksource", f"{DIRECTORY}/available_clocksource"
#: What --clocksource takes beside names.
ALL = "all"
PURPOSE = Purpose(
    lock=CURRENT,
    what="clocksources",
    command="clock-check --clocksource",
    without="measure the current one, without --clocksource",
)


@dataclass(frozen=True)
class Clocksources:
    """What the kernel says. `current` is None, and `available` empty, where it does not say."""

    current: str | None
    available: tuple[str, ...]


def read_clocksources(fs: Sysfs) -> Clocksources:
    """Read them."""
    return Clocksources(fs.read_optional(CURRENT) or None, tuple((fs.read_optional(AVAILABLE) or "").split()))


def choose(fs: Sysfs, found: Clocksources, wanted: Sequence[str]) -> tuple[str | None, ...]:
    """Return the clocksources to measure, in order: those of --clocksource, or the current one.

    ToolError: ENVIRONMENT when others are asked for and the kernel does not say which there are, USAGE
    when one of them is not among them.
    """
    if not wanted:
        return (found.current,)
    if found.current is None or not found.available:
        raise ToolError(
            f"{fs.path(DIRECTORY)} does not say which clocksources there are",
            PURPOSE.without,
            ExitCode.ENVIRONMENT,
        )
    names = dict.fromkeys(
        name for word in wanted for name in (found.available if word == ALL else word.split(","))
    )
    for name in names:
        if name not in found.available:
            raise ToolError(
                f"--clocksource {name}: this kernel has no such clocksource now",
                f"choose from {', '.join(found.available)}, or {ALL}",
                ExitCode.USAGE,
            )
    return tuple(names)


def plan(found: Clocksources, wanted: str | None) -> tuple[Setting, ...]:
    """Return what to change so that WANTED is used; nothing where it is."""
    if wanted is None or found.current is None or wanted == found.current:
        return ()
    return (Setting(CURRENT, found.current, wanted),)
