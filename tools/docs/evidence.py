"""The pages of docs/evidence, made from the runs that docs/data keeps.

`templates/NAME.md.j2` becomes `docs/evidence/NAME.md`. A kernel line that gets data gets its sections.
"""

from __future__ import annotations

import datetime
import itertools
import json
import statistics
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from docpages import blocks
from hotplug_common.kernel import lines as kernel_lines
from hotplug_common.kernel.series import PATCHED
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.reader import Run, read_files
from hotplug_timer.trace.command import take
from hotplug_timer.trace.states import States
from kernel_qualify import figures
from kernel_qualify.judge import clockcosts, cores, earlysleeps, gains, instructions, latencies, predictions
from kernel_qualify.judge.mdtable import heading, row

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/data"
EVIDENCE = ROOT / "docs/evidence"
TEMPLATES = Path(__file__).resolve().parent / "templates"
PASSED, NOT_PASSED, NOT_RUN = "passed", "not passed", "not run"
HINT = "its first lines describe an entry"
SHARED = ("conditions.md.j2",)
"""Templates that others include."""


@dataclass(frozen=True)
class Kind:
    """One folder of docs/data: which test wrote its runs, and how they are read and judged."""

    test: str
    page: str
    runs: Callable[[], Mapping[Path, Any]]
    problems: Callable[[Any], list[str]]
    guest: Callable[[Any], str]
    """The run's guests, in words."""


KINDS = {
    "speed": Kind("speed", "speed.md", figures.speed_runs, gains.problems, lambda run: str(run.guest)),
    "clocks": Kind(
        "clock costs",
        "clocks.md",
        figures.clock_runs,
        clockcosts.problems,
        lambda run: f"{run.vcpus} vCPUs on {run.host_cpus} host CPUs",
    ),
    "early": Kind(
        "clock early",
        "clock-events.md",
        figures.early_runs,
        earlysleeps.problems,
        lambda run: f"{run.arch} {run.device}",
    ),
    "instructions": Kind(
        "instructions",
        "instructions.md",
        figures.instruction_runs,
        instructions.problems,
        lambda run: f"{run.arch}, {', '.join(map(str, sorted({one.cpus for one in run.switches})))} CPUs",
    ),
    "cores": Kind(
        "cores",
        "cores.md",
        figures.core_runs,
        cores.problems,
        lambda run: f"{run.arch}, {run.changes[0].cpus} CPUs",
    ),
    "prediction": Kind(
        "prediction",
        "prediction.md",
        figures.prediction_runs,
        predictions.problems,
        lambda run: str(run.guest),
    ),
    "latencies": Kind(
        "latencies",
        "latencies.md",
        figures.latency_runs,
        latencies.problems,
        lambda run: f"{run.arch}, {run.cpus} CPUs",
    ),
}


@dataclass(frozen=True)
class Kept:
    """A run that docs/data keeps: its guests and kernels, and what the judge of its test misses."""

    path: Path
    kind: Kind
    guest: str
    releases: tuple[str, ...]
    problems: tuple[str, ...]

    def link(self, line: str) -> str:
        """Name the guests, with a link to the figures, and what is missing."""
        figures_of = f"[{self.guest}]({self.kind.page}#linux-{line.replace('.', '')})"
        return f"{figures_of}: {'; '.join(self.problems)}" if self.problems else figures_of


@dataclass(frozen=True)
class Entry:
    """One row of the validation status."""

    test: str
    line: str
    kernel: str
    arch: str
    patches: str
    conditions: str
    result: str
    seen: str
    date: datetime.date
    kept: Kept | None = None
    """The kept run, if there is one."""

    @property
    def cells(self) -> list[str]:
        """The row's cells, as STATUS_HEAD names them. A kept run's page has the rest of what it saw."""
        seen = self.kept.link(self.line) if self.kept else self.seen
        facts = [self.test, self.arch, self.kernel, self.patches, self.result, seen, self.conditions]
        return [*facts, str(self.date)]


STATUS_HEAD = [
    *("test", "architecture", "kernel", "patches", "result", "what the run saw", "conditions", "date"),
]


def pages() -> Mapping[Path, str]:
    """Return the text of each page below docs/evidence.

    ToolError (INPUT) for data without an entry in status.toml, an entry without data, or a bad entry.
    """
    status = Status.read(DATA / "status.toml")
    environment = jinja2.Environment(  # noqa: S701 - Markdown, not HTML
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    current = kernel_lines.names(ROOT / "kernel-patches")
    environment.globals.update(lines=status.lines, current=current, status=status, figures=Figures())
    return {
        EVIDENCE / name: blocks.refreshed(environment.get_template(f"{name}.j2").render()) for name in names()
    }


def names() -> list[str]:
    """Return the names of the generated pages."""
    found = (path.name for path in TEMPLATES.glob("*.md.j2") if path.name not in SHARED)
    return sorted(name.removesuffix(".j2") for name in found)


@dataclass(frozen=True)
class Status:
    """What docs/data/status.toml has: entries, notes by kernel line, and where each test applies."""

    entries: tuple[Entry, ...]
    notes: Mapping[str, Sequence[str]]
    tests: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, path: Path) -> Status:
        """Read the file and the runs that it names. ToolError (INPUT) names the entry that is wrong."""
        facts = tomllib.loads(path.read_text("utf-8"))
        words = facts["conditions"]
        entries = tuple(_entry(given, words) for given in facts["entry"])
        named = [entry.kept.path for entry in entries if entry.kept]
        there = {run for kind in KINDS.values() for run in kind.runs()}
        if sorted(named) != sorted(there):
            odd = sorted({str(run.relative_to(DATA)) for run in there.symmetric_difference(named)})
            found = f"not one entry for each run of docs/data: {', '.join(odd) or 'a run has two'}"
            raise ToolError(f"{path.name}: {found}", HINT, ExitCode.INPUT)
        unknown = {entry.test for entry in entries} - set(facts["tests"])
        if unknown:
            raise ToolError(f"{path.name}: unknown tests: {sorted(unknown)}", HINT, ExitCode.INPUT)
        return cls(entries, facts["notes"], facts["tests"])

    @property
    def lines(self) -> list[str]:
        """The kernel lines, oldest first."""
        return sorted({entry.line for entry in self.entries}, key=lambda line: [*map(int, line.split("."))])

    def overview(self, lines: Sequence[str]) -> str:
        """Return, in Markdown, how each test stands on each architecture of these kernel lines.

        That is the day of the newest run that passed, or else the newest run's result and day.
        """
        rows = [
            row([test, arch, *(self._stands(test, arch, line) for line in lines)])
            for test, arches in self.tests.items()
            for arch in arches
        ]
        return "\n".join([*heading(["test", "architecture", *(f"Linux {line}" for line in lines)]), *rows])

    def _stands(self, test: str, arch: str, line: str) -> str:
        found = [
            entry for entry in self.entries if (entry.test, entry.arch, entry.line) == (test, arch, line)
        ]
        newest = max(found, key=lambda entry: (entry.result == PASSED, entry.date), default=None)
        return f"{newest.result} {newest.date}" if newest else NOT_RUN

    def table(self, line: str) -> str:
        """Return the status table of a kernel line, in Markdown."""
        rows = [
            entry for test in self.tests for entry in self.entries if (entry.test, entry.line) == (test, line)
        ]
        return "\n".join([*heading(STATUS_HEAD), *(row(entry.cells) for entry in rows)])

    def runs(self, folder: str, line: str) -> str:
        """Return the kept runs of a folder of docs/data for a kernel line: kernels, dates and conditions.

        Empty where there is none.
        """
        lines = []
        for entry in self.entries:
            if entry.kept and entry.kept.kind is KINDS[folder] and entry.line == line:
                kernels = ", ".join(f"`{release}`" for release in entry.kept.releases)
                cells = [entry.kept.guest, kernels, entry.patches, str(entry.date), entry.conditions]
                lines.append(row([*cells, entry.seen]))
        head = heading(["guest", "kernels", "patches", "date", "conditions", "notes"])
        return "\n".join([*head, *lines] if lines else [])


def _entry(given: Mapping[str, Any], words: Mapping[str, str]) -> Entry:
    """Make one entry of what the file gives; ToolError (INPUT) when a key is missing or too many."""
    facts = dict(given)
    facts["conditions"] = "; ".join(words.get(word, word) for word in facts.get("conditions", ()))
    facts.setdefault("seen", "")
    data = facts.pop("data", None)
    try:
        return Entry(**facts) if data is None else _of_data(DATA / data, **facts)
    except (TypeError, KeyError) as error:
        raise ToolError(f"status.toml: {data or facts.get('test')}: {error}", HINT, ExitCode.INPUT) from error


def _of_data(path: Path, *, patches: str, conditions: str, seen: str, date: datetime.date) -> Entry:
    """Make the entry of a kept run; the judge of its test gives the result."""
    kind = KINDS[path.parent.name]
    run = kind.runs()[path]
    problems = kind.problems(run)
    arch = getattr(run, "arch", "x86_64")  # the costs of clocks are only measured there
    return Entry(
        kind.test,
        figures.line_of(path),
        run.releases[PATCHED].partition("-patched-")[0].removesuffix("-smt"),
        arch,
        patches,
        conditions,
        NOT_PASSED if problems else PASSED,
        seen,
        date,
        Kept(path, kind, kind.guest(run), tuple(run.releases.values()), tuple(problems)),
    )


@dataclass(frozen=True)
class Files:
    """Files that a command of ours reads, as a pattern from the root, and a title for them."""

    title: str
    pattern: str
    line: str


class Figures:
    """The tables of the kept runs, each in Markdown, for one kernel line; empty where there is no run."""

    published = "tools/hotplug-timer/hotplug_timer/data/published-timings.csv"
    """The timings of others, from the root."""

    def variants(self) -> list[Files]:
        """Return the kept measurements of the RCU variants."""
        return [_files(folder, "/*.jsonl") for folder in sorted((DATA / "rcu-variants").iterdir())]

    def distributions(self) -> list[Files]:
        """Return the kept runs of a distribution's kernel against its package with the patches."""
        return [_files(folder, "/*.jsonl") for folder in sorted((DATA / "distribution").iterdir())]

    def conditions(self, files: Files) -> str:
        """Return what lies beside runs of their conditions."""
        return (ROOT / files.pattern).with_name("conditions.txt").read_text("utf-8").rstrip()

    def states(self, files: Files, direction: str, least_ms: float = 0.05) -> str:
        """Return the time in each hotplug state on both kernels, a CPU, from traces beside the runs."""
        folder = (ROOT / files.pattern).parent
        runs = {run.variant: run for run in read_files(sorted(folder.glob("*.jsonl"))).runs}
        taken = {name: _state_times(folder, run, direction) for name, run in runs.items()}
        before, after = taken.values()
        rows = [
            [f"`{name}`", *(f"{each.get(name, 0):.2f}" for each in (before, after))]
            for name in sorted({*before, *after}, key=lambda name: -after.get(name, 0))
            if max(before.get(name, 0), after.get(name, 0)) >= least_ms
        ]
        titles = ["callback", *(f"{name}, ms per CPU" for name in taken)]
        return "\n".join([*heading(titles), *map(row, rows)])

    def spread(self, files: Files) -> str:
        """Return the seconds of each operation on both kernels, over all boots."""
        timed: dict[tuple[str, str], list[float]] = {}
        for run in read_files(sorted(ROOT.glob(files.pattern))).runs:
            for item in run.iterations:
                if item.seconds is not None:
                    timed.setdefault((item.operation, run.variant), []).append(item.seconds)
        rows = [
            [f"`{operation}`", variant, *(f"{of(took):.3f}" for of in (statistics.median, min, max))]
            for (operation, variant), took in sorted(timed.items())
        ]
        titles = ["switch", "kernel", "median (s)", "fastest (s)", "slowest (s)"]
        return "\n".join([*heading(titles), *map(row, rows)])

    def udev(self, files: Files) -> str:
        """Return what switches take with kdump-tools' rule for udev and without it; empty where none is kept.

        The wait is from the end of a switch to the start of the next one: settle time, and what udev takes.
        """
        took: dict[tuple[str, str], list[float]] = {}
        waits: dict[tuple[str, str], list[float]] = {}
        for path in sorted((ROOT / files.pattern).parent.glob("udev/*.jsonl")):
            records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            timed = [one for one in records if one["record"] == "iteration" and one["phase"] == "timed"]
            starts = [datetime.datetime.fromisoformat(one["started"]) for one in timed]
            for one, start, following in itertools.zip_longest(timed, starts, starts[1:]):
                key = (one["operation"], path.stem)
                took.setdefault(key, []).append(one["seconds"])
                if following:
                    waits.setdefault(key, []).append((following - start).total_seconds() - one["seconds"])
        rows = [
            [f"`{key[0]}`", key[1], str(len(seconds))]
            + [f"{number:.2f}" for number in (statistics.median(seconds), max(seconds))]
            + [f"{statistics.median(waits[key]):.1f}"]
            for key, seconds in sorted(took.items())
        ]
        titles = ["switch", "kernel", "n", "median (s)", "slowest (s)", "until the next one, median (s)"]
        return "\n".join([*heading(titles), *map(row, rows)]) if rows else ""

    def speed(self, line: str) -> str:
        """Return time, counts and gains of SMT switches, their growth, and where the time goes."""
        return gains.table(_of_line(figures.speed_runs(), line))

    def goals(self, line: str) -> str:
        """Return what SMT switches gain beside the project's goals."""
        return gains.goals(_of_line(figures.speed_runs(), line))

    def turns(self, line: str) -> str:
        """Return what one CPU takes of a switch off, on the patched kernel, in milliseconds."""
        lines = heading(["guest", "its own callbacks, ms", "its turn in the rendezvous, ms"])
        for run in sorted(_of_line(figures.speed_runs(), line), key=lambda run: (run.place, run.cpus)):
            off = run.of(PATCHED, "plain", "off")
            if off and off.pieces:
                each = [1000 * off.piece(name) / (run.cpus - run.cores) for name in ("callbacks", "takedown")]
                lines.append(row([run.guest, *(f"{ms:.0f}" for ms in each)]))
        return "\n".join(lines)

    def clocks(self, line: str) -> str:
        """Return what a call of each clocksource costs."""
        runs = _of_line(figures.clock_runs(), line)
        return clockcosts.table(runs) if runs else ""

    def early(self, line: str) -> tuple[str, str, str]:
        """Return three tables: sleeps under a steered clock, their lateness, and what programming takes."""
        return earlysleeps.tables(_of_line(figures.early_runs(), line))

    def early_summary(self, line: str) -> str:
        """Return a row for each timer: errors, early interrupts and lateness of long sleeps, instructions."""
        head = ["timer", "programmed off at most: stock", "patched", "early interrupts: stock", "patched"]
        head += ["late: stock", "patched", "instructions: stock", "patched"]
        runs = sorted(_of_line(figures.early_runs(), line), key=lambda run: (run.arch, run.device))
        return "\n".join([*heading(head), *(row(_early_cells(run)) for run in runs)])

    def instructions(self, line: str) -> str:
        """Return the runs of instructions."""
        return instructions.table(_of_line(figures.instruction_runs(), line))

    def cores(self, line: str) -> str:
        """Return the runs of cores."""
        return cores.table(_of_line(figures.core_runs(), line))

    def predictions(self, line: str) -> str:
        """Return the runs of predict."""
        return predictions.table(_of_line(figures.prediction_runs(), line))

    def latencies(self, line: str) -> str:
        """Return the runs of hackbench and cyclictest."""
        return latencies.table(_of_line(figures.latency_runs(), line))


def _state_times(folder: Path, run: Run, direction: str) -> dict[str, float]:
    """Return the milliseconds by the clock in each state for a CPU that goes, over a variant's traces."""
    traces = sorted(folder.glob(f"*-{run.variant}.smt={direction}.states.txt.xz"))
    found = States()
    notes: list[str] = []
    for trace in traces:
        take(trace, found, "states", notes)
    if notes or not traces:
        raise ToolError(f"{folder}: {notes or 'no traces'}", "record them again", ExitCode.INPUT)
    switched = (run.online - run.shape.cores) * len(traces)
    taken: dict[str, float] = {}
    for (_, name), spent in found.by_state().items():
        taken[name] = taken.get(name, 0) + spent.clock / 1e6 / switched
    return taken


def _files(path: Path, within: str = "") -> Files:
    """Name a file or folder of docs/data by its first words: kernel line, architecture, CPUs if given."""
    line, arch, *cpus = path.name.removesuffix(path.suffix if path.is_file() else "").split("-")
    title = ", ".join([f"Linux {line}", arch, *(f"{number} CPUs" for number in cpus)])
    return Files(title, f"{path.relative_to(ROOT)}{within}", line)


def _of_line(runs: Mapping[Path, Any], line: str) -> list[Any]:
    return [run for path, run in runs.items() if figures.line_of(path) == line]


def _early_cells(run: earlysleeps.Run) -> list[str]:
    """Return the cells of one timer; sleeps are those of a second or more while the clock is steered."""
    pairs = [pair for pair in run.pairs() if pair[0].seconds >= earlysleeps.LONG_S and pair[0].ppm]
    kernels = list(zip(*pairs, strict=True))
    longest = max(before.seconds for before, _ in pairs)
    cells = [f"{run.arch} {run.device}"]
    cells += [f"{max((sleep.worst for sleep in sleeps), key=abs):+.3g} ppm" for sleeps in kernels]
    cells += [_early([sleep for sleep in sleeps if sleep.ppm < 0]) for sleeps in kernels]
    for sleeps in kernels:
        late = [us for sleep in sleeps if sleep.ppm > 0 and sleep.seconds == longest for us in sleep.late_us]
        cells.append(f"{statistics.median(late) / 1000:.1f} ms of {longest:g} s")
    programming = run.instructions(earlysleeps.PROGRAM)
    return [*cells, *((f"{each:.0f}" for each in programming) if programming else ("", ""))]


def _early(sleeps: Iterable[earlysleeps.Sleep]) -> str:
    counts = [count for sleep in sleeps for count in sleep.early]
    return f"{sum(map(bool, counts))} of {len(counts)}"
