"""What timers were programmed to while the clock was steered: stock against patched, targets, and the table.

Pure functions.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hotplug_common.boots import Effect, compare_all
from hotplug_common.kernel.series import PATCHED, STOCK, VARIANTS
from kernel_qualify.judge.mdtable import heading, row, slower
from kernel_qualify.judge.verdicts import Record, of_kind

MOST_PPM = 1.0
"""What a sleep of a second or more may be off, beyond rounding."""
LEAST_SEEN_PPM = 50.0
"""What the stock kernel has to be off at 500 ppm, or the measurement does not see what it is about."""
LONG_S = 1.0
STEERED_PPM = 500.0
EXACT = ("decrementer", "hpet")
"""Devices whose rate is known. That of the APIC's timer is measured at boot, and 50 ppm wrong or more."""
COUPLED = {("7.2", "decrementer"), ("7.3", "decrementer")}
"""Lines and devices that the series couples to the clocksource. Of 7.2, a former line, a run is kept."""
SUSPENDS = {"ppc64le": ("core",), "x86_64": ("deep", "s2idle")}
"""How deep guests of an architecture can be suspended: to memory, to idle, or, where QEMU has nothing to
suspend to, as far as the kernel's test of hibernation goes, which is all but leaving the machine."""
SUSPEND_FRAGMENTS = {"ppc64le": ("hibernation",), "x86_64": ()}
"""What that takes in a kernel's configuration, by architecture."""
ALIKE_PPM = 250.0
"""How much the timer's rate may differ between both guests, who measure it at boot: half of what is steered.
With more, when interrupts come says nothing of the kernels."""
PROGRAM = "clockevents_program_event"
NOTHING = "arch_cpu_idle_exit"
"""An empty function: what it seems to take is what the profile takes, of any function."""
MOST_COUPLED = 0.8
"""How many instructions of those on stock it may take to program a coupled device."""
MOST_LATER_US = 1000.0
"""How much later sleeps may end than on stock, by the medians: half of what 500 ppm make of 4 s. Each kernel
is booted once, so a test of the sleeps would take a difference between boots for one between kernels."""


@dataclass(frozen=True)
class Sleep:
    """All sleeps of one length (s) at one rate (ppm), in one kernel; a value for each."""

    kernel: str
    ppm: float
    seconds: float
    off_ppm: tuple[float, ...]
    interrupts: tuple[int, ...]
    early: tuple[int, ...]
    late_us: tuple[float, ...]

    @property
    def worst(self) -> float:
        """How far what was programmed was off at most, with its sign."""
        return max(self.off_ppm, key=abs)


@dataclass(frozen=True)
class Cost:
    """How often a function was called in one kernel, and what all calls took, with the profile's own."""

    kernel: str
    function: str
    calls: int
    instructions: int

    @property
    def each(self) -> float:
        """Instructions of a call, with the profile's own."""
        return self.instructions / self.calls


@dataclass(frozen=True)
class Run:
    """Both kernels in guests of one shape with one timer."""

    line: str
    arch: str
    device: str
    releases: dict[str, str]
    sleeps: tuple[Sleep, ...]
    costs: tuple[Cost, ...]
    suspended: dict[str, dict[str, bool]]
    """By kernel and depth, whether a suspend before one of the last rounds went well; none: not to be had."""
    rates: dict[str, float] = field(default_factory=dict)
    """By kernel, ticks of the timer in a nanosecond, as the guest has them; empty in older runs."""

    def pairs(self) -> list[tuple[Sleep, Sleep]]:
        """Return the same sleeps in stock and patched, by length and rate."""
        after = {(sleep.ppm, sleep.seconds): sleep for sleep in self.sleeps if sleep.kernel == PATCHED}
        stock = [sleep for sleep in self.sleeps if sleep.kernel == STOCK]
        before = sorted(stock, key=lambda sleep: (sleep.seconds, sleep.ppm))
        return [(sleep, after[key]) for sleep in before if (key := (sleep.ppm, sleep.seconds)) in after]

    def instructions(self, function: str) -> tuple[float, float] | None:
        """Those of a call in stock and in patched, without the profile's own; None if that is not known."""
        each = {(cost.kernel, cost.function): cost.each for cost in self.costs if cost.calls}
        wanted = [(kernel, name) for kernel in VARIANTS for name in (function, NOTHING)]
        if not all(key in each for key in wanted):
            return None
        before, after = (each[kernel, function] - each[kernel, NOTHING] for kernel in VARIANTS)
        return before, after


@dataclass(frozen=True)
class Lateness:
    """Sleeps of a length (s) in a boot of each kernel: not steered on stock, at all rates in patched (us)."""

    seconds: float
    stock: tuple[float, ...]
    patched: tuple[float, ...]

    @property
    def later_us(self) -> float:
        """How much later patched is, by the medians."""
        return statistics.median(self.patched) - statistics.median(self.stock)

    @property
    def effect(self) -> Effect:
        """One boot against the other."""
        return compare_all({STOCK: list(self.stock)}, [{PATCHED: list(self.patched)}])[0]


def lateness(run: Run) -> list[Lateness]:
    """Long sleeps of the patched kernel, however the clock is steered, against stock where it is not."""
    found = []
    for seconds in sorted({sleep.seconds for sleep in run.sleeps if sleep.seconds >= LONG_S}):
        same = [sleep for sleep in run.sleeps if sleep.seconds == seconds]
        stock = _late(sleep for sleep in same if sleep.kernel == STOCK and sleep.ppm == 0)
        patched = _late(sleep for sleep in same if sleep.kernel == PATCHED)
        if stock and patched:
            found.append(Lateness(seconds, stock, patched))
    return found


def _late(sleeps: Iterable[Sleep]) -> tuple[float, ...]:
    return tuple(us for sleep in sleeps for us in sleep.late_us)


def sleeps(kernel: str, records: Iterable[Record]) -> list[Sleep]:
    """Return the sleeps of all rounds in a kernel, without those of which no programming was seen."""
    found: dict[tuple[float, float], list[Record]] = {}
    for record in of_kind(records, "sleep"):
        if record["worst_ppm"] is not None:
            found.setdefault((record["ppm"], record["seconds"]), []).append(record)
    return [
        Sleep(
            kernel,
            ppm,
            seconds,
            tuple(record["worst_ppm"] for record in same),
            tuple(record["interrupts"] for record in same),
            tuple(record["early"] for record in same),
            tuple(record["late_us"] for record in same),
        )
        for (ppm, seconds), same in found.items()
    ]


def costs(kernel: str, records: Iterable[Record]) -> list[Cost]:
    """Return what was profiled in a kernel."""
    return [
        Cost(kernel, record["function"], record["calls"], record["instructions"])
        for record in of_kind(records, "cost")
    ]


def suspended(records: Iterable[Record]) -> dict[str, bool]:
    """Whether each suspend of a run went well, by depth; without those the guest does not have."""
    found = of_kind(records, "suspend")
    return {record["depth"]: bool(record["went_well"]) for record in found if record["possible"]}


def not_suspended(depths: Mapping[str, bool], wanted: Iterable[str]) -> list[str]:
    """Which of the suspends that are wanted did not go well, or were not to be had."""
    return [f"did not suspend ({depth})" for depth in wanted if not depths.get(depth)]


def rate(records: Iterable[Record]) -> float:
    """Ticks of the timer in a nanosecond, as a guest has them from its boot on."""
    return float(of_kind(records, "device")[0]["rate"])


def apart_ppm(run: Run) -> float:
    """How much the timer's rate differs between both guests."""
    rates = run.rates.values()
    return 1e6 * (max(rates) / min(rates) - 1) if rates else 0.0


def problems(run: Run) -> list[str]:
    """Which targets were missed, and whether the measurement could have told."""
    found = []
    pairs = [pair for pair in run.pairs() if pair[0].seconds >= LONG_S]
    steered = [pair for pair in pairs if abs(pair[0].ppm) >= STEERED_PPM]
    if not steered:
        return ["no long sleep was seen programmed in both kernels"]
    if min(abs(before.worst) for before, _ in steered) < LEAST_SEEN_PPM:
        found.append("the stock kernel follows the clock as well, or the measurement does not see it")
    found += [
        f"{after.seconds:g} s at {after.ppm:+g} ppm: {after.worst:+.3g} ppm off, not {MOST_PPM:g} at most"
        for _, after in pairs
        if abs(after.worst) > MOST_PPM
    ]
    found += [
        f"{kernel}: {problem}"
        for kernel, depths in run.suspended.items()
        for problem in not_suspended(depths, SUSPENDS.get(run.arch, ()))
    ]
    return found + _when_problems(run, pairs) + _cost_problems(run)


def _when_problems(run: Run, pairs: Iterable[tuple[Sleep, Sleep]]) -> list[str]:
    """Whether interrupts come when they should, if the guests' timers can be compared."""
    if (apart := apart_ppm(run)) > ALIKE_PPM:
        return [
            f"the guests have measured rates of their timers {apart:.0f} ppm apart, so when interrupts"
            " come was not judged: boot them on a host with less to do"
        ]
    late = [
        f"{late.seconds:g} s: {late.later_us:.0f} us later than on stock where the clock is not steered"
        for late in lateness(run)
        if late.later_us > MOST_LATER_US
    ]
    return late + _early_problems(pairs, exact=run.device in EXACT)


def _early_problems(pairs: Iterable[tuple[Sleep, Sleep]], *, exact: bool) -> list[str]:
    """Early interrupts: none where the device's rate is known, else no more than on stock."""
    counts = [(after, sum(before.early), sum(after.early)) for before, after in pairs]
    return [
        f"{sleep.seconds:g} s at {sleep.ppm:+g} ppm: {after} early interrupts, {before} on stock"
        for sleep, before, after in counts
        if (after > 0 if exact else sleep.ppm <= -STEERED_PPM and after > before)
    ]


def _cost_problems(run: Run) -> list[str]:
    """Whether it takes too much to program a device that is coupled."""
    if (run.line, run.device) not in COUPLED:
        return []
    programming = run.instructions(PROGRAM)
    if not programming:
        return [f"{PROGRAM} and {NOTHING} were not both called in both kernels"]
    before, after = programming
    if after <= MOST_COUPLED * before:
        return []
    return [f"{after:.0f} instructions to program a coupled device, not {MOST_COUPLED:g} x {before:.0f}"]


def table(runs: Sequence[Run]) -> str:
    """Return all tables as Markdown."""
    return "\n".join(f"{part}\n" for part in tables(runs))


def tables(runs: Sequence[Run]) -> tuple[str, str, str]:
    """Return three tables as Markdown: sleeps, how late they end, and what programming a timer takes."""
    head = ["timer", "sleep", "steered", "rounds", "programmed off: stock", "patched"]
    head += ["interrupts: stock", "patched", "some early: stock", "patched", "late, median: stock", "patched"]
    sleep_lines = heading(head)
    ordered = sorted(runs, key=lambda run: (run.line, run.arch, run.device))
    for run in ordered:
        for before, after in run.pairs():
            cells = [f"{run.arch} {run.device}", f"{before.seconds:g} s", f"{before.ppm:+g} ppm"]
            cells += [str(len(before.off_ppm))]
            cells += [f"{sleep.worst:+.3g} ppm" for sleep in (before, after)]
            cells += [f"{statistics.median(sleep.interrupts):g}" for sleep in (before, after)]
            cells += [f"{sum(map(bool, sleep.early))} of {len(sleep.early)}" for sleep in (before, after)]
            cells += [f"{statistics.median(sleep.late_us):.0f} us" for sleep in (before, after)]
            sleep_lines.append(row(cells))
    head = ["timer", "sleep", "late: stock, not steered (sleeps)", "patched, steered and not"]
    late_lines = heading([*head, "median differs by", "spread of boots that explains it"])
    late_lines += [row(_lateness_row(run, found)) for run in ordered for found in lateness(run)]
    cost_lines = heading(["timer", "function", "instructions a call: stock", "patched", "ratio"])
    cost_lines += [row(cells) for run in ordered for cells in _cost_rows(run)]
    return "\n".join(sleep_lines), "\n".join(late_lines), "\n".join(cost_lines)


def _lateness_row(run: Run, late: Lateness) -> list[str]:
    cells = [f"{run.arch} {run.device}", f"{late.seconds:g} s"]
    cells += [f"{statistics.median(us):.0f} us ({len(us)})" for us in (late.stock, late.patched)]
    effect = late.effect
    return [*cells, slower(effect, 0), f"{effect.holds_below_boot_sd_percent:.0f}%"]


def _cost_rows(run: Run) -> list[list[str]]:
    rows = []
    for function in dict.fromkeys(cost.function for cost in run.costs if cost.function != NOTHING):
        if both := run.instructions(function):
            before, after = both
            what = [f"{run.arch} {run.device}", f"`{function}`"]
            rows.append([*what, f"{before:.0f}", f"{after:.0f}", f"{after / before:.2f}"])
    return rows


def load(path: Path) -> Run:
    """Read what keeping.save() wrote; KeyError or TypeError for anything else."""
    facts = json.loads(path.read_text())
    lists = ("off_ppm", "interrupts", "early", "late_us")
    found = [Sleep(**sleep | {name: tuple(sleep[name]) for name in lists}) for sleep in facts.pop("sleeps")]
    profiled = [Cost(**cost) for cost in facts.pop("costs")]
    return Run(**facts, sleeps=tuple(found), costs=tuple(profiled))
