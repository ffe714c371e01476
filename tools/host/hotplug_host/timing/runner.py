"""The run: check everything, switch, verify, record, and always put the SMT state back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from hotplug_host import results
from hotplug_host.child import ChildResult, Watch
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import SMT
from hotplug_host.records import (
    COMPLETE,
    COUNTED,
    FAILED,
    INTERRUPTED,
    INVALID,
    OK,
    TIMER,
    WARMUP,
    Origin,
    Record,
    end_record,
)
from hotplug_host.restore import (
    SavedState,
    difference,
    put_affinities_back,
    read_affinities,
    restore_state,
    save_state,
)
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.counters import choose_counter
from hotplug_host.timing.cycle import check_cycle, start_of
from hotplug_host.timing.machine import follow_change, place_by_switching
from hotplug_host.timing.operation import Machine
from hotplug_host.timing.plan import Settings, plan_steps
from hotplug_host.timing.records import iteration_record, run_record
from hotplug_host.timing.session import Session, opened
from hotplug_host.timing.step import Step
from hotplug_host.timing.switch import CpuOnlineDriver, require_root
from hotplug_host.timing.traced import TracedSteps, lost_events
from hotplug_host.timing.transition import Transition, do_transition
from hotplug_host.topology import describe_change, describe_difference, read_online, read_topology
from hotplug_host.udev import wait_until_idle

UDEV_MOST_S = 300.0
"""Seconds that a run waits for udev after a switch, which ends each program that it runs after 180."""


class Runner:
    """One run on one host. `execute` does it all and raises ToolError when it did not succeed."""

    def __init__(self, settings: Settings, fs: Sysfs, stop: StopRequest, stream: TextIO = sys.stderr) -> None:
        self.settings = settings
        self.fs = fs
        self.stop = stop
        self.stream = stream

    def execute(self) -> None:
        """Check, run, restore. ToolError carries the exit code for every way but success."""
        check_cycle(self.settings.operations)
        require_root(self.fs)
        self.settings.hooks.check()
        kind = self.settings.operations[0].kind
        with opened(self.fs, self.stop, self.stream, kind, self.settings.via) as session:
            way_back = WayBack(
                session, save_state(self.fs), self.settings.timeout_s, read_affinities(self.fs)
            )
            machine = discover(self.settings, session, way_back)
            Run(self.settings, session, way_back, machine).execute()


@dataclass(frozen=True)
class WayBack:
    """The state that comes back on every way out, within `timeout_s` seconds."""

    session: Session
    saved: SavedState
    timeout_s: float
    affinities: Mapping[str, str]

    def go(self) -> str | None:
        """Put the state back; returns how the host still differs, None when it does not."""
        if self.session.stop.requested and difference(self.session.fs, self.saved) is not None:
            self.session.progress.note("stop requested: putting the SMT state back")
        left = restore_state(self.session.fs, self.saved, self.timeout_s)
        refused = put_affinities_back(self.session.fs, self.affinities) if left is None else []
        if refused:
            self.session.progress.note(
                f"interrupts {', '.join(refused)} did not take back the CPUs that they had"
            )
        return left


def discover(settings: Settings, session: Session, way_back: WayBack) -> Machine:
    """Return the machine; the operations are checked against it before anything is recorded."""
    machine = Machine(read_topology(session.fs), way_back.saved.online)
    if machine.topology.unplaced and settings.operations[0].kind == SMT:
        session.progress.note("bringing all threads online once, to see which core each belongs to")
        machine = _discover_by_switching(settings, session, way_back, machine)
    for operation in settings.operations:
        operation.check(machine, session.fs)
    return machine


def _discover_by_switching(
    settings: Settings, session: Session, way_back: WayBack, machine: Machine
) -> Machine:
    """Place the CPUs that are offline (not on POWER); the state is back in every case."""
    failure: ToolError | None = None
    seen = machine
    try:
        watch = Watch(settings.timeout_s, session.stop)
        seen = place_by_switching(session.fs, session.driver, machine, watch)
    except ToolError as error:
        failure = error
    _raise_outcome(failure, way_back.go())
    return seen


def _raise_outcome(failure: ToolError | None, left: str | None) -> None:
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


class Run:
    """The steps of a run on a machine that is known, and their records."""

    def __init__(self, settings: Settings, session: Session, way_back: WayBack, machine: Machine) -> None:
        self.settings = settings
        self.fs = session.fs
        self.stop = session.stop
        self.driver = session.driver
        self.progress = session.progress
        self.way_back = way_back
        self.machine = machine
        self.origin = Origin(TIMER, settings.variant)
        self.counter = choose_counter(self.fs) if settings.count_iterations else None
        self.traced = TracedSteps(settings, self.fs, machine)
        self.waits_for_udev = True

    def execute(self) -> None:
        """Do the steps that are left to do; ToolError when they did not all succeed."""
        record = run_record(self.origin, self.settings, self.fs, self.machine, self.way_back.saved)
        writer, steps = self._open(record)
        try:
            if steps:
                self._record_run(writer, record, steps)
            else:
                self.progress.note(f"{self.settings.output} is complete already; nothing to do")
        finally:
            writer.close()

    def _open(self, record: Record) -> tuple[results.ResultWriter, list[Step]]:
        """Open the output and return the steps that are to be done."""
        path = self.settings.output
        steps = list(plan_steps(self.settings))
        previous = results.read_previous(path) if self.settings.resume else None
        if previous is not None:
            results.check_same(path, previous.run, record)
            steps = [step for step in steps if not _is_done(step, previous)]
            if all(step.phase == WARMUP for step in steps):
                steps = []
            return results.reopen(path, previous.whole_bytes), steps
        if self.settings.append:
            return results.reopen(path, path.stat().st_size), steps
        if self.settings.resume and path.exists():
            return results.reopen(path, 0), steps
        return results.create(path), steps

    def _record_run(self, writer: results.ResultWriter, record: Record, steps: list[Step]) -> None:
        """Write the run's record, do the steps, restore, write the end's record; raise what went wrong."""
        failure: ToolError | None = None
        try:
            writer.append(record)
            self._do_steps(writer, steps)
        except ToolError as error:
            failure = error
        except BaseException:
            self.way_back.go()  # a bug, but the host comes first
            raise
        left = self.way_back.go()
        outcome = COMPLETE if failure is None else INTERRUPTED if self.stop.requested else FAILED
        try:
            writer.append(end_record(self.origin, outcome, restored=left is None))
        except ToolError as error:
            failure = failure or error
        _raise_outcome(failure, left)

    def _do_steps(self, writer: results.ResultWriter, steps: list[Step]) -> None:
        self.progress.expect(len(steps))
        invalid = 0
        for number, step in enumerate(steps):
            self._check_stop(number, len(steps))
            self._follow_change(describe_change(self.machine.topology, self.fs))
            self._bring_to_start(step)
            self._check_stop(number, len(steps))
            transition = self._hooked_transition(step, writer)
            if transition is None:
                raise self._interrupted(number, len(steps))
            self._check_transition(step, transition, number, len(steps))
            invalid += transition.status == INVALID
            if number + 1 < len(steps):
                self._come_to_rest(step.operation.name)
        if invalid:
            self.progress.note(f"{invalid} of {len(steps)} switches are invalid and will not be compared")
        if self.stop.requested:
            self.progress.note("the stop request came after the last iteration; the run is complete")

    def _check_stop(self, done: int, total: int) -> None:
        if self.stop.requested:
            raise self._interrupted(done, total)

    def _check_transition(self, step: Step, transition: Transition, done: int, total: int) -> None:
        """Report a transition that was recorded; raise when the run cannot go on after it."""
        what = self._describe(step)
        if transition.status == OK:
            self._report_ok(step, transition, what)
        elif transition.status == INVALID:
            self.progress.finish(what, f"invalid: {transition.error}")
            self._follow_change(describe_change(self.machine.topology, self.fs))
        elif transition.status == INTERRUPTED:
            raise self._interrupted(done, total)
        elif (losses := lost_events(self._where(step), transition)) is not None:
            raise losses
        else:
            raise self._operation_error(step, transition.child, str(transition.error), transition.after)

    def _report_ok(self, step: Step, transition: Transition, what: str) -> None:
        overhead = self.traced.take(step, transition)
        if overhead is None:
            self.progress.step(what, None if step.phase == COUNTED else transition.child.seconds)
        elif transition.trace is not None:
            self.progress.finish(what, f"traced into {transition.trace.file}")
            self.progress.note(overhead)

    def _follow_change(self, change: str | None) -> None:
        """Take CPUs that came or went into account; ToolError when the run's own CPUs are concerned."""
        if change is None:
            return
        self.machine = follow_change(self.fs, self.machine, change)
        self.progress.note(f"{change}; none of them takes part, so the run goes on")

    def _bring_to_start(self, step: Step) -> None:
        """Bring the host to where STEP starts, untimed, unless it is there."""
        start = start_of(self.settings.operations, step.position, self.machine)
        expected = start.target(self.machine)
        if read_online(self.fs) == expected:
            return
        # Asking smt/control for the level it is at does nothing, even when a CPU was taken offline by
        # hand; from another level every thread comes.
        self.progress.begin(f"before {self._describe(step)}, {start.name}", len(expected))
        watch = Watch(self.settings.timeout_s, self.stop, self.progress.tick)
        driver, way = self.driver, [start, start.far_end(self.machine), start]
        if start.kind != SMT:
            driver, way = CpuOnlineDriver(self.fs), [start]
        for operation in way:
            result = driver.perform(operation, self.machine, watch)
            if self.stop.requested:
                return
            online = read_online(self.fs)
            difference_left = describe_difference(expected, online)
            if result.error is not None or difference_left is None:
                break
        error = result.error or difference_left
        if error is not None:
            self._follow_change(describe_change(self.machine.topology, self.fs))
            raise self._operation_error(step, result, f"preparing with {start.name}: {error}", online)
        self._come_to_rest(start.name)

    def _come_to_rest(self, after: str) -> None:
        """Wait for the settle time, and until udev is done with the CPUs that came and went."""
        self.stop.sleep(self.settings.settle_s)
        if not self.waits_for_udev:
            return
        waited, idle = wait_until_idle(self.fs, self.stop, UDEV_MOST_S)
        if self.stop.requested:
            return
        if not idle:
            self.waits_for_udev = False
            self.progress.note(
                f"udev was not done {waited:.0f} s after {after}; the run goes on and waits for it no more"
            )
        elif waited >= 1:
            self.progress.note(f"udev was done {self.settings.settle_s + waited:.1f} s after {after}")

    def _hooked_transition(self, step: Step, writer: results.ResultWriter) -> Transition | None:
        """Do one transition between its hooks, and record it before anything else can fail.

        Returns None when a signal came before it: then it was not begun.
        """
        transition: Transition | None = None
        failure: ToolError | None = None
        try:
            self._run_prepare(step)
            if not self.stop.requested:
                transition = self._transition(step)
                writer.append(iteration_record(self.origin, step, transition))
        except ToolError as error:
            failure = error
        problem = self.settings.hooks.run_cleanup(step)
        if failure is not None:
            raise failure
        if problem is not None and (transition is None or transition.status == OK):
            raise self._hook_error(step, problem)
        return transition

    def _run_prepare(self, step: Step) -> None:
        problem = self.settings.hooks.run_prepare(step, self.stop)
        if self.stop.requested or self.settings.prepare is None:
            return
        if problem is not None:
            raise self._hook_error(step, problem)
        self._check_start(step)

    def _hook_error(self, step: Step, problem: str) -> ToolError:
        return ToolError(
            f"{self._where(step)}: {problem}", "run the command by hand and look why", ExitCode.OPERATION
        )

    def _check_start(self, step: Step) -> None:
        start = start_of(self.settings.operations, step.position, self.machine)
        wrong = describe_difference(start.target(self.machine), read_online(self.fs))
        if wrong is not None:
            raise ToolError(
                f"{self._where(step)}: --prepare left {wrong}",
                "leave CPUs as they are in --prepare",
                ExitCode.OPERATION,
            )

    def _transition(self, step: Step) -> Transition:
        operation = step.operation
        self.progress.begin(self._describe(step), len(operation.target(self.machine)))
        watch = Watch(self.settings.timeout_of(operation), self.stop, self.progress.tick)
        return do_transition(
            self.fs,
            self.driver,
            operation,
            self.machine,
            watch,
            counter=self.counter if step.phase == COUNTED else None,
            recording=self.traced.recording(step, self.machine, self.driver.task),
        )

    def _operation_error(
        self, step: Step, child: ChildResult, error: str, online: frozenset[int]
    ) -> ToolError:
        taking_part = {cpu for core in self.machine.active_cores for cpu in core}
        if child.left_running is not None:
            hint = f"process {child.left_running} is still in the kernel: look at the kernel log"
        elif child.timed_out:
            hint = "raise --timeout, or look at the kernel log"
        elif online - taking_part:
            hint = "this kernel brings up cores that were wholly offline: bring them online before the run"
        else:
            hint = "look at the kernel log"
        code = ExitCode.TIMEOUT if child.timed_out else ExitCode.OPERATION
        return ToolError(f"{self._where(step)}: {error}", hint, code)

    def _interrupted(self, done: int, total: int) -> ToolError:
        name = self.stop.first.name if self.stop.first else "a signal"
        return ToolError(
            f"stopped by {name} after {done} of {total} switches",
            f"they are in {self.settings.output}; continue with --resume",
            self.stop.exit_code,
        )

    def _describe(self, step: Step) -> str:
        return f"{step.operation.name} {step.phase} {step.index}/{self.settings.iterations_of(step.phase)}"

    @staticmethod
    def _where(step: Step) -> str:
        return f"{step.operation.name}, {step.phase} iteration {step.index}"


def _is_done(step: Step, previous: results.Previous) -> bool:
    # A warm-up warms the machine up for what follows it now, so an earlier one does not count.
    return step.phase != WARMUP and (step.phase, step.index, step.operation.name) in previous.done
