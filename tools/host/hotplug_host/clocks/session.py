"""A run from its first to its last measurement: settings held, results recorded, everything put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from hotplug_host import clocksource, records
from hotplug_host.clock import now
from hotplug_host.clocks import table
from hotplug_host.clocks.measure import Caller, Measurement, Outcome
from hotplug_host.clocks.probe import CpuGoneError, Probe, StoppedError, stopped
from hotplug_host.clocksource import Clocksources
from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.held import Held, holding
from hotplug_host.progress import Progress
from hotplug_host.records import COMPLETE, FAILED, INTERRUPTED, INVALID, OK, TIMED, WARMUP, Measured, Origin
from hotplug_host.results import ResultWriter, create
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import describe_cpus, read_online, read_topology

PROGRAM = records.CLOCK_CHECK
#: The guardian's last resort, in seconds beyond what all measurements may take.
MARGIN_S = 60.0
#: How often a measurement calls the probe at most.
CALLS = 3


@dataclass(frozen=True)
class Subject:
    """What a run measures. `clocksource` is None where the kernel does not say which it uses."""

    origin: Origin
    clocksource: str | None
    cpus: tuple[int, ...]

    @property
    def variant(self) -> str:
        """Return the variant's name."""
        return self.origin.variant


@dataclass(frozen=True)
class Turn:
    """Which iteration it is: its phase, and its number in that, from 1."""

    phase: str
    index: int


@dataclass(frozen=True)
class Plan:
    """What to measure. Every clocksource is a variant of its own; None stands for one without a name."""

    clocksources: tuple[str | None, ...]
    variant: str | None
    cpus: tuple[int, ...]
    measurements: tuple[Measurement, ...]
    iterations: int
    warmup: int
    settle_s: float
    timeout_s: float
    #: What the record of the run says of how it was measured.
    settings: Mapping[str, object]
    boot_method: str
    emulated: bool
    output: Path | None


class Session:
    """Carries out a plan on one host."""

    def __init__(
        self, fs: Sysfs, plan: Plan, probe: Probe, stop: StopRequest, *, out: TextIO, errors: TextIO
    ) -> None:
        self._fs = fs
        self._plan = plan
        self._probe = probe
        self._stop = stop
        self._out = out
        rounds = plan.warmup + plan.iterations
        total = len(plan.clocksources) * rounds * len(plan.measurements)
        self._progress = Progress(total, errors, program=PROGRAM)
        self._writer: ResultWriter | None = None
        self._cells: dict[tuple[str, str], list[Mapping[str, float]]] = {}
        self._problems: list[str] = []
        self._left: list[str] = []

    def execute(self) -> None:
        """Measure, print a table; ToolError unless every clock was right and all settings are back."""
        if self._plan.output is not None:
            self._writer = create(self._plan.output, resumable=False)
        failure: ToolError | None = None
        try:
            with self._stop.installed():
                found = clocksource.read_clocksources(self._fs)
                for name in self._plan.clocksources:
                    self._block(found, name)
        except StoppedError:
            kept = "what was finished is kept" if self._writer else "without --output nothing is kept"
            failure = stopped(self._stop, kept)
        except ToolError as error:
            failure = error
        finally:
            if self._writer is not None:
                self._writer.close()
        self._print()
        self._judge(failure)

    def _block(self, found: Clocksources, name: str | None) -> None:
        """Measure with one clocksource."""
        plan, held, outcome = self._plan, Held(), FAILED
        subject = Subject(Origin(PROGRAM, plan.variant or name or "unknown"), name, plan.cpus)
        rounds = plan.warmup + plan.iterations
        most_s = rounds * len(plan.measurements) * (CALLS * plan.timeout_s + plan.settle_s) + MARGIN_S
        begun = False
        try:
            with holding(self._fs, clocksource.plan(found, name), clocksource.PURPOSE, most_s, held):
                self._append(self._run_record(subject, found))
                begun = True
                self._measure(subject, held)
                outcome = COMPLETE
        except StoppedError:
            outcome = INTERRUPTED
            raise
        finally:
            self._left += held.problems
            if begun:
                self._append(records.end_record(subject.origin, outcome, not self._left))

    def _measure(self, subject: Subject, held: Held) -> None:
        for phase, rounds in ((WARMUP, self._plan.warmup), (TIMED, self._plan.iterations)):
            for index in range(1, rounds + 1):
                for measurement in self._plan.measurements:
                    if self._stop.requested:
                        raise StoppedError
                    self._one(subject, measurement, Turn(phase, index), held)
                    self._stop.sleep(self._plan.settle_s)

    def _one(self, subject: Subject, measurement: Measurement, turn: Turn, held: Held) -> None:
        """Do one measurement and record it; ToolError when the next one would not be of the same thing."""
        started, inner = now(), Held()

        def on_tick() -> None:
            held.look()
            inner.look()

        caller = Caller(self._probe, subject.cpus, self._plan.timeout_s, on_tick)
        outcome: Outcome | None = None
        broken: str | None = None
        try:
            with holding(
                self._fs,
                measurement.settings,
                measurement.purpose or clocksource.PURPOSE,
                CALLS * self._plan.timeout_s + MARGIN_S,
                inner,
            ):
                outcome = measurement.perform(caller)
                broken = inner.early
        except CpuGoneError as gone:
            broken = gone.message
        finally:
            self._left += inner.problems
        broken = broken or self._disturbance(subject, outcome)
        problem = outcome.problem if outcome else None
        measured = Measured(
            index=turn.index,
            operation=measurement.operation,
            phase=turn.phase,
            started=started,
            seconds=outcome.seconds if outcome else None,
            status=INVALID if broken else FAILED if problem else OK,
            error=broken or problem,
        )
        detail = {measurement.gives: outcome.detail} if outcome else {}
        self._append(records.iteration_record(subject.origin, measured, detail))
        if broken or outcome is None:
            raise ToolError(
                f"{measurement.operation}: {broken}",
                "what was measured before is kept; run again",
                ExitCode.OPERATION,
            )
        self._take(subject, measurement, turn, outcome)

    def _take(self, subject: Subject, measurement: Measurement, turn: Turn, outcome: Outcome) -> None:
        """Keep what came of a measurement for the table, and tell."""
        if turn.phase == TIMED:
            self._cells.setdefault((subject.variant, measurement.operation), []).append(outcome.cells)
        name, value = next(iter(outcome.cells.items()))
        said = outcome.problem or f"{table.shown(value)} {name}"
        self._progress.finish(f"{subject.variant} {measurement.operation}", said)
        if outcome.problem:
            self._problems.append(f"{subject.variant} {measurement.operation}: {outcome.problem}")

    def _disturbance(self, subject: Subject, outcome: Outcome | None) -> str | None:
        """Say what changed under a measurement, so that it is none; None when nothing did."""
        gone = frozenset(subject.cpus) - read_online(self._fs)
        if gone:
            return f"{describe_cpus(gone)} went offline"
        if outcome is not None and outcome.moved:
            return f"threads were moved away from {describe_cpus(outcome.moved)}"
        current = clocksource.read_clocksources(self._fs).current
        if subject.clocksource is not None and current != subject.clocksource:
            return (
                f"the clocksource was {subject.clocksource} and is {current}: somebody changed it, or the"
                " kernel did, as it does with one it finds unstable"
            )
        return None

    def _run_record(self, subject: Subject, found: Clocksources) -> Mapping[str, object]:
        plan, topology = self._plan, read_topology(self._fs)
        settings = records.Settings(
            operations=[measurement.operation for measurement in plan.measurements],
            iterations=plan.iterations,
            warmup=plan.warmup,
            settle_s=plan.settle_s,
            timeout_s=plan.timeout_s,
        )
        clock = {
            "clocksource": subject.clocksource,
            "found": found.current,
            "available": list(found.available),
        }
        host = records.Host(self._fs, topology, topology.online, plan.boot_method, plan.emulated)
        detail = {"clock": clock, "cpus": format_cpulist(subject.cpus), **plan.settings}
        return records.run_record(subject.origin, host, settings, detail)

    def _append(self, record: Mapping[str, object]) -> None:
        if self._writer is not None:
            self._writer.append(record)

    def _print(self) -> None:
        if self._cells:
            rows = [(variant, operation, cells) for (variant, operation), cells in self._cells.items()]
            self._out.write(table.render(rows))

    def _judge(self, failure: ToolError | None) -> None:
        """ToolError unless all is well; what was not put back is named in any case."""
        if self._problems and failure is None:
            more = f", and {len(self._problems) - 1} more" if len(self._problems) > 1 else ""
            failure = ToolError(f"{self._problems[0]}{more}", "do not rely on this clock", ExitCode.OPERATION)
        if self._left:
            done = failure.message if failure else "measured"
            raise ToolError(
                f"{done}; but {'; '.join(self._left)}",
                "find out who else writes there, and write what it should say",
                failure.code if failure else ExitCode.OPERATION,
            )
        if failure is not None:
            raise failure
