"""The variants of the published table: how each was made, and what it took there."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from hotplug_host.errors import ExitCode, ToolError

BASELINE = "stock"
#: The table's lines in the published timings: all of them are of one machine.
SOURCE, SYSTEM = "offcputime-2023-03-20", "POWER9 2x16xSMT4"
LINK = "https://lore.kernel.org/all/5f2ab8a44d685701fe36cdaa8042a1aef215d10d.camel@linux.vnet.ibm.com/"
#: How often each was measured there.
PUBLISHED_N = 10


@dataclass(frozen=True)
class Variant:
    """One row. `expedited`: with rcu_expedited set; `stock`: on the stock kernel."""

    number: int
    name: str
    title: str
    expedited: bool
    stock: bool


VARIANTS = (
    Variant(1, BASELINE, "stock", expedited=False, stock=True),
    Variant(
        2,
        "revert-442bf3aaf55a",
        "no synchronize_rcu() in cpuidle_uninstall_idle_handler()",
        expedited=False,
        stock=False,
    ),
    Variant(3, "cpuidle-expedited", "that call expedited", expedited=False, stock=False),
    Variant(4, "rcu_expedited", "stock, rcu_expedited=1 system-wide", expedited=True, stock=True),
)


@dataclass(frozen=True)
class Timing:
    """A published switch of `toggled` of `cpus` CPUs."""

    kernel: str
    system: str
    cpus: int
    toggled: int
    direction: str
    variant: str
    seconds: float


@dataclass(frozen=True)
class Published:
    """What one variant took in the published table; the decrease is None for the baseline."""

    seconds: float
    decrease_percent: float | None


def by_names(names: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of these names, in the table's order.

    ToolError (USAGE) for a name that is none, or when there is nothing to hold against the baseline.
    """
    known = [variant.name for variant in VARIANTS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ToolError(f"no row is called {unknown[0]!r}", f"choose of {', '.join(known)}", ExitCode.USAGE)
    if BASELINE not in names or len(set(names)) < 2:
        raise ToolError(
            f"{', '.join(names) or 'nothing'} makes no table",
            f"name {BASELINE}, and one row or more to hold against it",
            ExitCode.USAGE,
        )
    return tuple(variant for variant in VARIANTS if variant.name in names)


def published_timings() -> list[Timing]:
    """Return the lines of the published table."""
    text = files("hotplug_timer").joinpath("data/published-timings.csv").read_text(encoding="utf-8")
    return [
        Timing(
            line["kernel"],
            line["system"],
            int(line["cpus"]),
            int(line["toggled"]),
            line["direction"],
            line["variant"],
            float(line["seconds"]),
        )
        for line in csv.DictReader(text.splitlines())
        if (line["source"], line["system"]) == (SOURCE, SYSTEM)
    ]


def published(variant: Variant, direction: str, timings: Sequence[Timing]) -> Published:
    """Return what a variant took; its decrease is that of the seconds, which are rounded."""
    seconds = {timing.variant: timing.seconds for timing in timings if timing.direction == direction}
    decrease = 100 * (1 - seconds[variant.name] / seconds[BASELINE])
    return Published(seconds[variant.name], None if variant.name == BASELINE else decrease)
