"""The `smt` command: one verified switch, with grace periods expedited while it lasts if asked for."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import TextIO

from hotplug_host.child import Watch
from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import Guardian, lock_settings
from hotplug_host.operations import SMT
from hotplug_host.records import INTERRUPTED, INVALID, OK
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.expedite import Plan, plan_settings
from hotplug_host.timing.operation import SMT_ON, Machine, SmtLevel
from hotplug_host.timing.session import Session, opened
from hotplug_host.timing.switch import require_root
from hotplug_host.timing.transition import Transition, do_transition
from hotplug_host.topology import describe_change, read_control, read_online, read_topology

#: How much longer than the switch may take the guardian waits to be asked.
MARGIN_S = 60.0


@dataclass(frozen=True)
class SmtSettings:
    """What the user asked for; times are in seconds."""

    operation: SmtLevel
    expedite: bool
    tune_fqs: bool
    dry_run: bool
    as_json: bool
    timeout_s: float
    via: str

    def check(self) -> None:
        """Refuse what makes no switch (ToolError, USAGE)."""
        if self.tune_fqs and not self.expedite:
            raise ToolError("--tune-fqs goes with --expedite", "add it", ExitCode.USAGE)


class SmtSwitch:
    """One switch. `execute` raises ToolError when it did not succeed or left RCU settings changed."""

    def __init__(self, settings: SmtSettings, fs: Sysfs, stop: StopRequest, stream: TextIO) -> None:
        self.settings = settings
        self.fs = fs
        self.stop = stop
        self.stream = stream

    def execute(self) -> None:
        """Check, expedite, switch, verify, restore."""
        self.settings.check()
        if not self.settings.dry_run:
            require_root(self.fs)
        with opened(self.fs, self.stop, self.stream, SMT, self.settings.via) as session:
            _Switch(self.settings, session).execute()


class _Switch:
    """The switch, with all that is known before it."""

    def __init__(self, settings: SmtSettings, session: Session) -> None:
        self.settings = settings
        self.fs = session.fs
        self.stop = session.stop
        self.driver = session.driver
        self.progress = session.progress
        self.machine, self.expected = _look(settings.operation, session.fs)

    def execute(self) -> None:
        if self._is_there():
            self._say_there()
        elif self.settings.dry_run:
            self._print_plan(self._plan())
        elif self.settings.expedite:
            self._switch_expedited()
        else:
            self._finish(None if self.stop.requested else self._switch(None), [], "")

    def _is_there(self) -> bool:
        """Whether everything is as it would be after the switch, what smt/control says included."""
        if self.machine.baseline != self.expected:
            return False
        control = read_control(self.fs)
        return control in (None, "notimplemented", self.settings.operation.label(self.machine))

    def _say_there(self) -> None:
        online, name = len(self.expected), self.settings.operation.name
        present = len(self.machine.topology.present)
        self._say([f"{name}: {online} of {present} CPUs online as it is"], {"changed": False, "seconds": 0.0})

    def _say(self, lines: list[str], answer: dict[str, object]) -> None:
        """Print what there is to say, in words or as JSON."""
        if self.settings.as_json:
            operation = {"operation": self.settings.operation.name, "dry_run": self.settings.dry_run}
            lines = [json.dumps({**operation, **answer, "said": lines})]
        sys.stdout.write("".join(f"{line}\n" for line in lines))

    def _plan(self) -> Plan:
        return plan_settings(self.fs, self.settings.tune_fqs) if self.settings.expedite else Plan(())

    def _print_plan(self, plan: Plan) -> None:
        lines = [
            f"would write {setting.during} to {self.fs.path(setting.name)}, which is {setting.before},"
            f" and put {setting.before} back after the switch"
            for setting in plan.settings
        ]
        lines += [f"would leave alone: {note}" for note in plan.notes]
        lines.append(
            f"would switch to {self.settings.operation.name} with {self.driver.name}: online are CPUs"
            f" {format_cpulist(self.machine.baseline)}, afterwards {format_cpulist(self.expected)}"
        )
        self._say(lines, {"changed": True, "seconds": None})

    def _switch_expedited(self) -> None:
        with lock_settings(self.fs) as lock:
            plan = self._plan()
            for note in plan.notes:
                self.progress.note(note)
            guardian = Guardian(self.fs, plan.settings, lock, self.settings.timeout_s + MARGIN_S)
            guardian.start()
            transition: Transition | None = None
            try:
                guardian.set()
                if not self.stop.requested:
                    transition = self._switch(guardian)
            finally:
                problems = guardian.restore()
        if guardian.early is not None:
            self.progress.note(guardian.early)
        self._finish(transition, problems, "" if guardian.early else ", expedited")

    def _switch(self, guardian: Guardian | None) -> Transition:
        def on_tick(elapsed: float) -> None:
            if guardian is not None:
                guardian.look()
            self.progress.tick(elapsed)

        operation = self.settings.operation
        self.progress.begin(operation.name, len(self.expected))
        watch = Watch(self.settings.timeout_s, self.stop, on_tick, guardian.descriptors if guardian else ())
        return do_transition(self.fs, self.driver, operation, self.machine, watch, expected=self.expected)

    def _finish(self, transition: Transition | None, problems: list[str], how: str) -> None:
        """Say what came of it; ToolError unless all is as it should be."""
        failure = None if self._holds_on_a_changed_machine(transition) else self._failure(transition)
        name = self.settings.operation.name
        if failure is None and transition is not None:
            said = (
                f"{name}: {len(self.expected)} of {len(self.machine.topology.present)} CPUs online after"
                f" {transition.child.seconds:.3f} s{how}"
            )
            self._say([said], {"changed": True, "seconds": transition.child.seconds})
        if not problems:
            if failure is not None:
                raise failure
            return
        done = failure.message if failure else f"{name} is done"
        raise ToolError(
            f"{done}; but {'; '.join(problems)}",
            "find out who else writes there, and write what it should say",
            failure.code if failure else ExitCode.OPERATION,
        )

    def _holds_on_a_changed_machine(self, transition: Transition | None) -> bool:
        """Whether cores came or went during the switch, and the level holds on those that are there now."""
        if transition is None or transition.status != INVALID:
            return False
        change = describe_change(self.machine.topology, self.fs)
        try:
            machine, expected = _look(self.settings.operation, self.fs)
        except ToolError:  # the level is none of the machine as it is now
            return False
        if change is None or machine.baseline != expected:
            return False
        self.progress.note(f"{change}; {self.settings.operation.name} holds there")
        self.machine, self.expected = machine, expected
        return True

    def _failure(self, transition: Transition | None) -> ToolError | None:
        name = self.settings.operation.name
        if transition is not None and transition.status == OK:
            return None
        stopped = self.stop.first.name if self.stop.first else "a signal"
        if transition is None:
            return ToolError(f"stopped by {stopped}", "nothing was switched", self.stop.exit_code)
        if transition.status == INTERRUPTED:
            return ToolError(
                f"stopped by {stopped} while switching to {name}: {transition.error}",
                "switch again, or back",
                self.stop.exit_code,
            )
        return ToolError(
            f"{name}: {transition.error}",
            "raise --timeout, or look at the kernel log"
            if transition.child.timed_out
            else "look at the kernel log",
            ExitCode.TIMEOUT if transition.child.timed_out else ExitCode.OPERATION,
        )


def _look(operation: SmtLevel, fs: Sysfs) -> tuple[Machine, frozenset[int]]:
    """Return the machine and the CPUs that have to be online afterwards."""
    topology = read_topology(fs)
    machine = Machine(topology, read_online(fs))
    if not topology.unplaced:
        operation.check(machine, fs)
        return machine, operation.target(machine)
    # Not on POWER: CPUs that are offline hide their core, but "on" brings all of them.
    if operation.level not in ("off", "on"):
        raise ToolError(
            f"smt {operation.level}: CPUs {format_cpulist(topology.unplaced)} are offline, so how many"
            " threads a core has does not show",
            "say on or off",
            ExitCode.USAGE,
        )
    machine = replace(machine, topology=replace(topology, threads_per_core=max(2, topology.threads_per_core)))
    return machine, topology.present if operation == SMT_ON else operation.target(machine)
