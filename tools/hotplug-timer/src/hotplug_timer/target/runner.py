"""The run: check everything, switch, verify, record, and always put the SMT state back."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TextIO

from hotplug_timer import __version__
from hotplug_timer.errors import ExitCode, ToolError
from hotplug_timer.target import results
from hotplug_timer.target.child import ChildResult
from hotplug_timer.target.counters import Counter, Counts, choose_counter, subtract
from hotplug_timer.target.cpulist import format_cpulist
from hotplug_timer.target.hostinfo import HostInfo, read_host, read_machine, read_rcu
from hotplug_timer.target.progress import Progress
from hotplug_timer.target.restore import SavedState, difference, restore_state, save_state
from hotplug_timer.target.signals import StopRequest
from hotplug_timer.target.switch import (
    SMT_OFF,
    SMT_ON,
    Operation,
    Ppc64CpuDriver,
    SmtControlDriver,
    check_levels,
    choose_driver,
    detect_path,
    from_threads,
    require_root,
)
from hotplug_timer.target.sysfs import Sysfs
from hotplug_timer.target.topology import (
    Topology,
    describe_difference,
    read_control,
    read_online,
    read_topology,
)

WARMUP, TIMED, COUNTED = "warmup", "timed", "counted"
OK, FAILED, INTERRUPTED = "ok", "failed", "interrupted"


@dataclass(frozen=True)
class Settings:
    """What the user asked for; times are in seconds."""

    operations: tuple[Operation, ...]
    label: str
    iterations: int
    count_iterations: int
    warmup: int
    settle_s: float
    timeout_s: float
    via: str
    boot_method: str
    emulated: bool
    output: Path
    resume: bool

    def check(self) -> None:
        """Refuse what makes no run (ToolError, USAGE)."""
        names = [operation.name for operation in self.operations]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise _usage(
                f"{twice} is given more than once, so transitions from different levels would be mixed",
                "time the other transition in a run of its own",
            )
        if self.iterations < 1:
            raise _usage(f"--iterations {self.iterations}: nothing would be timed", "ask for at least 1")
        for option, value in (("--count-iterations", self.count_iterations), ("--warmup", self.warmup)):
            if value < 0:
                raise _usage(f"{option} {value} is negative", "use 0 for none")
        if not 0 <= self.settle_s < float("inf"):
            raise _usage(f"--settle {self.settle_s} is not a time to wait", "use seconds, 0 for none")
        if not 0 < self.timeout_s < float("inf"):
            raise _usage(f"--timeout {self.timeout_s} leaves no time to switch", "use seconds above 0")
        if not self.label.strip():
            raise _usage("--label is empty", "name the variant, for example stock")


@dataclass(frozen=True)
class Step:
    """One transition of the plan: the phase and number it is recorded under."""

    phase: str
    index: int
    position: int
    operation: Operation


@dataclass(frozen=True)
class Transition:
    """One transition as it happened."""

    child: ChildResult
    started: str
    before: frozenset[int]
    after: frozenset[int]
    expected: frozenset[int]
    path: str | None
    counts: Counts | None
    status: str
    error: str | None


class Runner:
    """One run on one host. `execute` does it all and raises ToolError when it did not succeed."""

    def __init__(self, settings: Settings, fs: Sysfs, stop: StopRequest, stream: TextIO = sys.stderr) -> None:
        self.settings = settings
        self.fs = fs
        self.stop = stop
        self.stream = stream
        self.run_id = str(uuid.uuid4())

    def execute(self) -> None:
        """Check, run, restore. ToolError carries the exit code for every way but success."""
        self.settings.check()
        require_root(self.fs)
        self.driver: Ppc64CpuDriver | SmtControlDriver = choose_driver(self.settings.via, self.fs)
        self.saved: SavedState = save_state(self.fs)
        self.stop.on_waiting = lambda: self._note(
            "stop requested: waiting for the switch in progress; a second signal ends it"
        )
        with self.stop.installed():
            self.topology = self._discover()
            self.counter: Counter | None = choose_counter(self.fs) if self.settings.count_iterations else None
            writer, steps = self._open()
            try:
                if steps:
                    self._record_run(writer, steps)
                else:
                    self._note(f"{self.settings.output} is complete already; nothing to do")
            finally:
                writer.close()

    def _discover(self) -> Topology:
        """Read the topology; where offline CPUs hide their core (not on POWER), after SMT was on.

        The levels are checked before anything is recorded, and the state is back in every case.
        """
        topology = read_topology(self.fs)
        if topology.unplaced:
            self._note("bringing all threads online once, to see which core each belongs to")
            topology = self._discover_by_switching(topology)
        check_levels(self.settings.operations, topology, read_machine(self.fs))
        return topology

    def _discover_by_switching(self, topology: Topology) -> Topology:
        failure: ToolError | None = None
        seen = topology
        try:
            for operation in (SMT_OFF, SMT_ON):
                self._discovery_switch(operation, max(2, topology.threads_per_core))
            seen = read_topology(self.fs)
        except ToolError as error:
            failure = error
        self._raise_outcome(failure, self._restore())
        return replace(seen, online=topology.online)

    def _discovery_switch(self, operation: Operation, threads: int) -> None:
        result = self.driver.switch(operation.threads(threads), threads, self.settings.timeout_s, self.stop)
        if result.error:
            raise ToolError(
                f"{operation.name} failed: {result.error}",
                "switch SMT on by hand and look at the kernel log",
                ExitCode.TIMEOUT if result.timed_out else ExitCode.OPERATION,
            )

    def _open(self) -> tuple[results.ResultWriter, list[Step]]:
        """Open the output and return the steps that are to be done."""
        path = self.settings.output
        self.run_record = self._describe_run()
        previous = results.read_previous(path) if self.settings.resume else None
        if previous is not None:
            results.check_same(path, previous.run, self.run_record)
            steps = [step for step in self._plan() if not _is_done(step, previous)]
            if all(step.phase == WARMUP for step in steps):
                steps = []
            return results.reopen(path, previous.whole_bytes), steps
        if self.settings.resume and path.exists():
            return results.reopen(path, 0), list(self._plan())
        return results.create(path), list(self._plan())

    def _plan(self) -> Iterator[Step]:
        settings = self.settings
        phases = (
            (WARMUP, settings.warmup),
            (TIMED, settings.iterations),
            (COUNTED, settings.count_iterations),
        )
        for phase, iterations in phases:
            for index in range(1, iterations + 1):
                for position, operation in enumerate(settings.operations):
                    yield Step(phase, index, position, operation)

    def _record_run(self, writer: results.ResultWriter, steps: list[Step]) -> None:
        """Write the run's record, do the steps, restore, write the end's record; raise what went wrong."""
        failure: ToolError | None = None
        try:
            writer.append(self.run_record)
            self._do_steps(writer, steps)
        except ToolError as error:
            failure = error
        except BaseException:
            self._restore()  # a bug, but the host comes first
            raise
        left = self._restore()
        outcome = "complete" if failure is None else "interrupted" if self.stop.requested else "failed"
        try:
            writer.append(
                {
                    "record": "end",
                    "run_id": self.run_id,
                    "finished": _now(),
                    "outcome": outcome,
                    "smt_restored": left is None,
                }
            )
        except ToolError as error:
            failure = failure or error
        self._raise_outcome(failure, left)

    def _do_steps(self, writer: results.ResultWriter, steps: list[Step]) -> None:
        progress = Progress(len(steps), self.stream)
        for number, step in enumerate(steps):
            if self.stop.requested:
                raise self._interrupted(number, len(steps))
            self._prepare(step)
            if self.stop.requested:
                raise self._interrupted(number, len(steps))
            transition = self._transition(step)
            writer.append(self._iteration_record(step, transition))
            if transition.status == INTERRUPTED:
                raise self._interrupted(number, len(steps))
            if transition.status == FAILED:
                raise self._operation_error(step, transition.child, str(transition.error), transition.after)
            seconds = None if step.phase == COUNTED else transition.child.seconds
            progress.step(f"{step.operation.name} {step.phase} {step.index}/{self._of(step.phase)}", seconds)
            if number + 1 < len(steps):
                self.stop.sleep(self.settings.settle_s)
        if self.stop.requested:
            self._note("the stop request came after the last iteration; the run is complete")

    def _prepare(self, step: Step) -> None:
        """Bring the host to where STEP starts, untimed, unless it is there."""
        per_core = self.topology.threads_per_core
        threads = from_threads(self.settings.operations, step.position, per_core)
        expected = self.topology.expected_online(threads, self.saved.online)
        if read_online(self.fs) == expected:
            return
        # Asking smt/control for the level it is at does nothing, even when a CPU was taken offline by
        # hand; from another level every thread comes.
        detour = 1 if threads > 1 else per_core
        for level in (threads, detour, threads):
            result = self.driver.switch(level, per_core, self.settings.timeout_s, self.stop)
            if self.stop.requested:
                return
            online = read_online(self.fs)
            difference_left = describe_difference(expected, online)
            if result.error is not None or difference_left is None:
                break
        error = result.error or difference_left
        if error is not None:
            error = f"preparing {threads} threads per core: {error}"
            raise self._operation_error(step, result, error, online)
        self.stop.sleep(self.settings.settle_s)

    def _transition(self, step: Step) -> Transition:
        """Do one transition and verify what it left; count it if that is its phase."""
        per_core = self.topology.threads_per_core
        threads = step.operation.threads(per_core)
        expected = self.topology.expected_online(threads, self.saved.online)
        counter = self.counter if step.phase == COUNTED else None
        with counter.active() if counter else nullcontext():
            control_before, before, started = read_control(self.fs), read_online(self.fs), _now()
            counts_before = counter.read() if counter else {}
            child = self.driver.switch(threads, per_core, self.settings.timeout_s, self.stop)
            counts = subtract(counter.read(), counts_before) if counter else None
        after = read_online(self.fs)
        wrong = describe_difference(expected, after)
        path = None
        if child.error is None and wrong is None:
            path = detect_path(control_before, read_control(self.fs), threads, per_core)
            if path is None:
                wrong = f"smt/control says {read_control(self.fs)} after {step.operation.name}"
        error = "; ".join(text for text in (child.error, wrong) if text) or None
        status = OK if error is None else INTERRUPTED if child.aborted else FAILED
        return Transition(child, started, before, after, expected, path, counts, status, error)

    def _iteration_record(self, step: Step, transition: Transition) -> results.Record:
        timed = step.phase != COUNTED
        return {
            "record": "iteration",
            "run_id": self.run_id,
            "index": step.index,
            "operation": step.operation.name,
            "phase": step.phase,
            "path": transition.path,
            "driver": self.driver.name,
            "started": transition.started,
            "seconds": transition.child.seconds if timed else None,
            "cpus_before": format_cpulist(transition.before),
            "cpus_after": format_cpulist(transition.after),
            "cpus_expected": format_cpulist(transition.expected),
            "status": transition.status,
            "error": transition.error,
            "counts": transition.counts if transition.status == OK else None,
            "counter": self.counter.name if self.counter and not timed else None,
        }

    def _describe_run(self) -> results.Record:
        settings = self.settings
        host: HostInfo = read_host(self.fs, settings.boot_method, settings.emulated)
        return {
            "record": "run",
            "schema": results.SCHEMA,
            "run_id": self.run_id,
            "label": settings.label,
            "started": _now(),
            "tool_version": __version__,
            "host": asdict(host),
            "topology": {
                "possible": format_cpulist(self.topology.possible),
                "present": format_cpulist(self.topology.present),
                "online": format_cpulist(self.saved.online),
                "cores": len(self.topology.active_cores(self.saved.online)),
                "threads_per_core": self.topology.threads_per_core,
            },
            "smt": {"control": self.saved.control, "active": self.saved.active},
            "rcu": read_rcu(self.fs),
            "settings": {
                "operations": [operation.name for operation in settings.operations],
                "iterations": settings.iterations,
                "count_iterations": settings.count_iterations,
                "warmup": settings.warmup,
                "settle_s": settings.settle_s,
                "timeout_s": settings.timeout_s,
                "via": settings.via,
            },
        }

    def _restore(self) -> str | None:
        if self.stop.requested and difference(self.fs, self.saved) is not None:
            self._note("stop requested: putting the SMT state back")
        return restore_state(self.fs, self.saved, self.settings.timeout_s)

    def _raise_outcome(self, failure: ToolError | None, left: str | None) -> None:
        """Raise what went wrong, if anything: the run's failure, the restore's, or both in one line."""
        if left is None:
            if failure is not None:
                raise failure
            return
        problem = f"the SMT state was not put back: {left}"
        hint = "put it back with ppc64_cpu --smt or smt/control, and look at the kernel log"
        if failure is not None:
            raise ToolError(f"{failure.message}; {problem}", hint, failure.code)
        raise ToolError(problem, hint, ExitCode.OPERATION)

    def _operation_error(
        self, step: Step, child: ChildResult, error: str, online: frozenset[int]
    ) -> ToolError:
        taking_part = {cpu for core in self.topology.active_cores(self.saved.online) for cpu in core}
        if child.left_running is not None:
            hint = f"process {child.left_running} is still in the kernel: look at the kernel log"
        elif child.timed_out:
            hint = "raise --timeout, or look at the kernel log"
        elif online - taking_part:
            hint = "this kernel brings up cores that were wholly offline: bring them online before the run"
        else:
            hint = "look at the kernel log"
        where = f"{step.operation.name}, {step.phase} iteration {step.index}"
        code = ExitCode.TIMEOUT if child.timed_out else ExitCode.OPERATION
        return ToolError(f"{where}: {error}", hint, code)

    def _interrupted(self, done: int, total: int) -> ToolError:
        name = self.stop.first.name if self.stop.first else "a signal"
        return ToolError(
            f"stopped by {name} after {done} of {total} switches",
            f"they are in {self.settings.output}; continue with --resume",
            self.stop.exit_code,
        )

    def _of(self, phase: str) -> int:
        settings = self.settings
        return {WARMUP: settings.warmup, TIMED: settings.iterations, COUNTED: settings.count_iterations}[
            phase
        ]

    def _note(self, text: str) -> None:
        self.stream.write(f"hotplug-timer: {text}\n")
        self.stream.flush()


def _is_done(step: Step, previous: results.Previous) -> bool:
    # A warm-up warms the machine up for what follows it now, so an earlier one does not count.
    return step.phase != WARMUP and (step.phase, step.index, step.operation.name) in previous.done


def _usage(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.USAGE)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
