"""What the series gains: medians, ratios, counts and growth, from the records of guests."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from hotplug_common import boots, stats
from kernel_qualify.judge import verdicts
from kernel_qualify.judge.verdicts import Record

GRACE_PERIODS = "synchronize_rcu"
RENDEZVOUS = "stop_machine_cpuslocked"
REBUILDS = ("partition_sched_domains_locked", "partition_sched_domains")
"""Where there are both, the second calls the first; 7.3 has the first inlined into the second."""
REWRITES = "update_cpus_node"
ALONE = "a single CPU"
"""What the series says of a chunk with no CPU to go with: no fault."""
LISTS = ("seconds", "pieces", "serially", "switches")
"""What of a figure is a tuple, and a list in a file. Runs of earlier versions do not have all of them."""


@dataclass(frozen=True)
class Figure:
    """One direction of one mode on one kernel."""

    kernel: str
    """stock or patched"""
    mode: str
    """plain: smt/control; expedited: the same with rcu_expedited; crash: the same with a crash kernel
    loaded; legacy: cpuN/online, one by one"""
    to: str
    """off or on"""
    seconds: tuple[float, ...]
    grace_periods: int
    rendezvous: int
    rebuilds: int
    reader_wait: float | None
    """the longest wait for the hotplug lock, in seconds, during one more switch"""
    rewrites: int = 0
    """of the CPUs in the crash kernel's device tree"""
    pieces: tuple[dict[str, float], ...] = ()
    """what the pieces of the chunks took (seconds), by switch; empty where the kernel does not tell"""
    serially: tuple[str, ...] = ()
    """why the CPUs of a chunk went one by one, for each such chunk of those switches"""
    switches: tuple[int, ...] = ()
    """timed switches of each boot, in the order of the seconds; empty for one boot"""

    @property
    def boots(self) -> tuple[tuple[float, ...], ...]:
        """Seconds, by boot."""
        values = iter(self.seconds)
        return tuple(
            tuple(itertools.islice(values, count)) for count in self.switches or (len(self.seconds),)
        )

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)

    def piece(self, name: str) -> float:
        """Seconds of that piece, the median of all switches."""
        return statistics.median(switch.get(name, 0.0) for switch in self.pieces)


FEWEST = 3
"""Switches that a gain's interval takes on either side, and boots that it takes to judge a loss."""


@cache
def _interval(stock: tuple[float, ...], patched: tuple[float, ...]) -> tuple[float, float] | None:
    if min(len(stock), len(patched)) < FEWEST:
        return None
    found = stats.median_decrease_interval(np.asarray(stock, np.float64), np.asarray(patched, np.float64))
    return (1 / (1 - found.low / 100), 1 / (1 - found.high / 100)) if found and found.high < 100 else None


@dataclass(frozen=True)
class Gain:
    """How many times faster one kernel is than another, with its 95% interval."""

    times: float
    interval: tuple[float, float] | None
    boots: int = 1
    """of the kernel with fewer; the interval of one boot is for that one"""

    @classmethod
    def of(cls, stock: Figure, patched: Figure) -> Gain:
        """Return the gain in medians, of boots where there are several.

        The interval is by Welch's t test over boots; with one boot of a kernel, by bootstrap over switches.
        """
        fewer = min(len(stock.boots), len(patched.boots))
        if fewer == 1:
            return cls(stock.median / patched.median, _interval(stock.seconds, patched.seconds))
        found = boots.estimate(stock.boots, patched.boots)
        low, high = found.interval
        return cls(math.exp(-found.difference), (math.exp(-high), math.exp(-low)), fewer)

    @property
    def loss(self) -> bool:
        """Whether it is no gain, beyond the spread of the switches and what is allowed."""
        return self.times < 1 / MOST_OF_STOCK and self.interval is not None and self.interval[1] < 1

    def __str__(self) -> str:
        """As in "12.2x (11.4 to 13.0)", or "1.02x (0.97 to 1.08)"."""
        digits = 1 if self.times >= 2 else 2
        text = f"{self.times:.{digits}f}x"
        return (
            f"{text} ({' to '.join(f'{end:.{digits}f}' for end in self.interval)})" if self.interval else text
        )


@dataclass(frozen=True)
class Run:
    """Stock and patched in guests of the same shape, one after the other on the same host."""

    arch: str
    cores: int
    threads: int
    chunks: int
    releases: dict[str, str]
    figures: tuple[Figure, ...]
    bare: bool = False
    """whether the guests ran nothing beside the measurement"""
    one_thread: bool = False
    """whether all CPUs of a guest took turns on one thread of the emulator"""
    like: str = ""
    """what the guests were like, beside LPARs of the lab's own; see qemu.Machine"""
    config: str = ""
    """the file with the distribution's configuration that the kernels had, in place of the lab's"""

    @property
    def guest(self) -> str:
        """The guests in words."""
        return ", ".join([self.arch, f"{self.cores} x {self.threads}", *self.place])

    @property
    def place(self) -> tuple[str, ...]:
        """How the guests were run, in words: only runs of the same can be compared."""
        words = (self.like, "bare" if self.bare else "", "one thread" if self.one_thread else "", self.config)
        return tuple(word for word in words if word)

    @property
    def cpus(self) -> int:
        """All CPUs of the guest."""
        return self.cores * self.threads

    def of(self, kernel: str, mode: str, to: str) -> Figure | None:
        """One figure, if it was measured."""
        for figure in self.figures:
            if (figure.kernel, figure.mode, figure.to) == (kernel, mode, to):
                return figure
        return None

    def gain(self, to: str, over: str, mode: str = "plain") -> Gain | None:
        """How many times faster than the stock kernel, in the way OVER, the patched one is in MODE."""
        stock, patched = self.of("stock", over, to), self.of("patched", mode, to)
        return Gain.of(stock, patched) if stock and patched else None


MOST_OF_STOCK = 1.05
"""Of the stock kernel's seconds, what the patched one may take in the same way."""


@dataclass(frozen=True)
class Target:
    """What is asked of a guest of that many CPUs; None where the figure is only reported."""

    off: float | None
    off_expedited: float | None
    on: float | None

    def cells(self, run: Run) -> list[tuple[str, float | None, Gain | None]]:
        """Return what is asked, by name, beside what a run gained."""
        asked = (self.off, self.off_expedited, self.on)
        return [
            (name, least, run.gain(*over)) for (name, over), least in zip(ASKED.items(), asked, strict=True)
        ]


ASKED = {
    "off against stock": ("off", "plain"),
    "off against expedited": ("off", "expedited"),
    "on against stock": ("on", "plain"),
}
"""The gains that a Target is about, in its order: name, and direction and way of the stock kernel."""
TARGETS = {
    ("ppc64le", 16): Target(12, 5, 12),
    ("ppc64le", 64): Target(25, 25, 10),
    ("ppc64le", 128): Target(None, 30, None),
    ("x86_64", 16): Target(3, None, None),
    ("x86_64", 64): Target(3, None, None),
}
"""The least that passes: less than that is a fault of the series, or of the host."""
GOALS = {16: Target(20, 8, 25), 24: Target(14, 6, 12), 64: Target(60, 60, 30), 128: Target(120, 120, 40)}
"""What the project aims at in bare guests like an LPAR, by CPUs: reported, and not judged."""


def figures(kernel: str, records: Sequence[Record]) -> list[Figure]:
    """Return the figures among a guest's records."""
    return [
        Figure(
            kernel=kernel,
            mode=record["mode"],
            to=record["to"],
            seconds=tuple(record["seconds"]),
            grace_periods=record["counts"][GRACE_PERIODS],
            rendezvous=record["counts"][RENDEZVOUS],
            rebuilds=max(record["counts"].get(name, 0) for name in REBUILDS),
            reader_wait=record.get("reader_wait"),
            rewrites=record["counts"][REWRITES],
            pieces=tuple(filter(None, record.get("pieces", ()))),
            serially=tuple(record.get("serially", ())),
        )
        for record in verdicts.of_kind(records, "speed")
    ]


def joined(runs: Sequence[Sequence[Figure]]) -> tuple[Figure, ...]:
    """Return the figures of several boots, those of one way as one, with the most that a boot counted."""
    groups: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in itertools.chain.from_iterable(runs):
        groups.setdefault((figure.kernel, figure.mode, figure.to), []).append(figure)
    return tuple(_joined(group) for group in groups.values())


def _joined(group: Sequence[Figure]) -> Figure:
    if len(group) == 1:
        return group[0]
    waits = [figure.reader_wait for figure in group if figure.reader_wait is not None]
    return replace(
        group[0],
        seconds=tuple(second for figure in group for second in figure.seconds),
        grace_periods=max(figure.grace_periods for figure in group),
        rendezvous=max(figure.rendezvous for figure in group),
        rebuilds=max(figure.rebuilds for figure in group),
        rewrites=max(figure.rewrites for figure in group),
        reader_wait=max(waits, default=None),
        pieces=tuple(piece for figure in group for piece in figure.pieces),
        serially=tuple(reason for figure in group for reason in figure.serially),
        switches=tuple(len(figure.seconds) for figure in group),
    )


def chunks(facts: Record) -> int:
    """How many chunks a switch of that guest takes; one for each CPU on a kernel without chunks."""
    victims = len(facts["victims"])
    return math.ceil(victims / int(facts["chunk"])) if facts["chunk"] else victims


def problems(run: Run) -> list[str]:
    """Where a run misses its target, and where a cost is not paid by the chunk."""
    found = []
    patched = run.of("patched", "plain", "off")
    if patched is None:
        return ["nothing was measured on the patched kernel"]
    if patched.grace_periods > 2 + run.chunks:
        found.append(f"{patched.grace_periods} grace periods for {run.chunks} chunk(s)")
    for name, count in (("rendezvous", patched.rendezvous), ("rebuilds", patched.rebuilds)):
        if count > run.chunks:
            found.append(f"{count} {name} for {run.chunks} chunk(s)")
    reasons = sorted({*patched.serially} - {ALONE})
    found += [f"CPUs of a chunk went one by one because of {reason}" for reason in reasons]
    target = None if run.like or run.config else TARGETS.get((run.arch, run.cpus))
    if target:
        for name, asked, gain in target.cells(run):
            if asked and gain and gain.times < asked:
                digits = 1 if round(gain.times, 1) < asked else 3
                found.append(f"{name}: {gain.times:.{digits}f} times, not {asked:g}")
    slower = ((name, gain) for name, gain in _losses(run) if gain.boots >= FEWEST)
    return found + [f"{name} is slower than on stock in {gain.boots} boots: {gain}" for name, gain in slower]


def losses(run: Run) -> list[str]:
    """Where the patched kernel took longer than stock in the same way, and more boots have to tell."""
    return [
        f"{name} was slower than on stock: {gain}; repeat it with --boots {FEWEST}, as boots differ"
        for name, gain in _losses(run)
        if gain.boots < FEWEST
    ]


def _losses(run: Run) -> list[tuple[str, Gain]]:
    cells = ((f"{mode} {to}", run.gain(to, mode, mode)) for mode in WAYS for to in ("off", "on"))
    return [(name, gain) for name, gain in cells if gain and gain.loss]


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of log(seconds) over log(CPUs), least squares. Needs two different numbers of CPUs."""
    line = statistics.linear_regression([math.log(n) for n, _ in points], [math.log(s) for _, s in points])
    return line.slope


def load(path: Path) -> Run:
    """Read a run that was kept."""
    data = json.loads(path.read_text())
    kept = [
        Figure(**{**figure, **{name: tuple(figure.get(name, ())) for name in LISTS}})
        for figure in data.pop("figures")
    ]
    return Run(**data, figures=tuple(kept))


WAYS = {
    "plain": "`smt/control`",
    "expedited": "the same, `rcu_expedited`",
    "crash": "the same, crash kernel loaded",
    "legacy": "`cpuN/online`",
    "legacy-expedited": "`cpuN/online`, `rcu_expedited`",
}


def with_earlier(run: Run, earlier: Run) -> Run:
    """Return a run with the figures that an earlier one of the same kernels and guest has in addition.

    Of what both measured, the one with more boots stays, or with more iterations.
    """
    if run.guest != earlier.guest:
        return run
    figures = {(figure.kernel, figure.mode, figure.to): figure for figure in run.figures}
    for figure in earlier.figures:
        release = earlier.releases[figure.kernel]
        same = run.releases.get(figure.kernel, release) == release
        here = run.of(figure.kernel, figure.mode, figure.to)
        if same and (here is None or _size(here) < _size(figure)):
            figures[figure.kernel, figure.mode, figure.to] = figure
    return replace(run, releases={**earlier.releases, **run.releases}, figures=tuple(figures.values()))


def _size(figure: Figure) -> tuple[int, int]:
    return len(figure.boots), len(figure.seconds)


def table(runs: Sequence[Run]) -> str:
    """All figures as Markdown, smallest guest first, with the growth of off below."""
    lines = [
        "| guest | kernel | way | off: median s (min to max, n) | on: median s | off: grace periods,"
        " rendezvous, rebuilds | on: the same | longest wait of a reader, off | off gains | on gains |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(runs, key=lambda run: (run.arch, run.place, run.cpus)):
        for kernel in ("stock", "patched"):
            for mode in WAYS:
                off, on = run.of(kernel, mode, "off"), run.of(kernel, mode, "on")
                if off and on:
                    lines.append(_row(run, off, on))
    kernels = sorted({release for run in runs for release in run.releases.values()})
    parts = [*lines, "", *_growth(runs), "", f"Kernels: {', '.join(kernels)}.", *_pieces(runs)]
    return "\n".join(parts) + "\n"


def goals(runs: Sequence[Run]) -> str:
    """Return what bare guests gained beside the goals, as Markdown; empty without such a guest."""
    rows = []
    for run in sorted(runs, key=lambda run: run.cpus):
        goal = GOALS.get(run.cpus)
        if goal and run.arch == "ppc64le" and run.place == ("bare",):
            cells = [
                f"{gain.times:.1f}x of {asked:g}x" if asked and gain else "not measured"
                for _, asked, gain in goal.cells(run)
            ]
            rows.append(f"| {run.cpus} | {' | '.join(cells)} |")
    return "\n".join([f"| CPUs | {' | '.join(ASKED)} |", "|---|---|---|---|", *rows]) if rows else ""


PIECES = {
    "callbacks": "callbacks of online CPUs",
    "domains": "cpusets and domains",
    "deactivate": "inactive, grace period",
    "takedown": "rendezvous until dead",
    "dead": "callbacks of dead CPUs",
    "lock": "waiting for the lock",
}
"""Of a chunk that goes down, by the tracepoint's names, in words."""


def _pieces(runs: Sequence[Run]) -> list[str]:
    """Where the time of off goes on the patched kernel, from smaller guests to larger ones."""
    lines = []
    for run in sorted(runs, key=lambda run: (run.arch, run.place, run.cpus)):
        off = run.of("patched", "plain", "off")
        if off and off.pieces:
            cells = [run.guest, f"{off.median:.2f}", *(f"{off.piece(name):.3f}" for name in PIECES)]
            lines.append(f"| {' | '.join(cells)} |")
    if not lines:
        return []
    head = f"| guest | off: median s | {' | '.join(PIECES.values())} |"
    intro = "Where the time of `off` goes on the patched kernel (seconds, all chunks together; medians):"
    return ["", intro, "", head, f"|{'---|' * (len(PIECES) + 2)}", *lines]


def _row(run: Run, off: Figure, on: Figure) -> str:
    def gain(figure: Figure) -> str:
        over = run.gain(figure.to, figure.mode, figure.mode)
        if figure.kernel == "stock" or not over:
            return ""
        expedited = run.gain(figure.to, "expedited")
        return f"{over}, {expedited} over expedited" if figure.mode == "plain" and expedited else str(over)

    def counts(figure: Figure) -> str:
        text = f"{figure.grace_periods}, {figure.rendezvous}, {figure.rebuilds}"
        return f"{text}; {figure.rewrites} crash FDTs" if figure.mode == "crash" else text

    cells = [
        run.guest,
        off.kernel,
        WAYS[off.mode],
        f"{off.median:.2f} ({min(off.seconds):.2f} to {max(off.seconds):.2f}, {_number(off)})",
        f"{on.median:.2f}",
        counts(off),
        counts(on),
        "" if off.reader_wait is None else f"{off.reader_wait:.2f} s",
        gain(off),
        gain(on),
    ]
    return f"| {' | '.join(cells)} |"


def _number(figure: Figure) -> str:
    count = str(len(figure.seconds))
    return f"{count} in {len(figure.boots)} boots" if figure.switches else count


COMPARED_CPUS = 128
"""The largest guest in which stock was measured as well; growth up to there is given by itself."""


def _growth(runs: Sequence[Run]) -> list[str]:
    """How off grows, in sentences; guests that were run in different ways are not mixed."""
    lines = []
    ways = (("stock", "plain"), ("stock", "expedited"), ("patched", "plain"))
    places = sorted({run.place for run in runs})
    for place, (kernel, mode) in itertools.product(places, ways):
        points = [
            (run.cpus, figure.median)
            for run in sorted(runs, key=lambda run: run.cpus)
            if run.arch == "ppc64le" and run.place == place and (figure := run.of(kernel, mode, "off"))
        ]
        small = [point for point in points if point[0] <= COMPARED_CPUS]
        powers = [
            f"({', '.join(str(cpus) for cpus, _ in some)}) to the power of {exponent(some):.1f}"
            for some in ([small] if small == points else [small, points])
            if len({cpus for cpus, _ in some}) > 1
        ]
        if powers:
            way = f"{kernel}{', expedited' if mode == 'expedited' else ''}"
            lines.append(
                f"- Off on {', '.join(('ppc64le guests', *place))}, {way}: grows with the number of CPUs"
                f" {', and '.join(powers)}."
            )
    return lines
