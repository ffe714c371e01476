"""The traced steps of a run: into which files, and how much longer they took than the timed ones."""

from __future__ import annotations

from contextlib import AbstractContextManager

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.records import TIMED, TRACED
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.operation import Machine
from hotplug_host.timing.plan import Settings, plan_steps, trace_path
from hotplug_host.timing.recorder import Recorder, TextRecorder, Trace, prepare_recorder
from hotplug_host.timing.step import Step
from hotplug_host.timing.tracing import describe_overhead
from hotplug_host.timing.transition import Transition, describe_losses
from hotplug_host.topology import read_online


class TracedSteps:
    """What a run needs for its traced steps. Make it before anything is switched: it checks the host."""

    def __init__(self, settings: Settings, fs: Sysfs, machine: Machine) -> None:
        self._settings = settings
        self._fs = fs
        #: Seconds of timed transitions by operation.
        self._timed: dict[str, list[float]] = {}
        self._recorder: Recorder | TextRecorder | None = None
        if settings.traces:
            self._check_files()
        if settings.traces and settings.traces_as_text:
            self._recorder = TextRecorder(fs)
        elif settings.traces:
            cpus = len(machine.topology.possible)
            self._recorder = prepare_recorder(
                fs, settings.traces, cpus, settings.trace_buffer_kb, settings.output.parent
            )

    def recording(
        self, step: Step, machine: Machine, task: str
    ) -> AbstractContextManager[list[Trace]] | None:
        """Return what records a step whose transition TASK does; None for a step of another phase."""
        if step.phase != TRACED or self._recorder is None:
            return None
        changing = step.operation.target(machine) ^ read_online(self._fs)
        return self._recorder.recording(
            self._settings.traces[step.index - 1],
            task,
            max(changing, default=0),
            trace_path(self._settings, step),
        )

    def take(self, step: Step, transition: Transition) -> str | None:
        """Remember what was timed; return what a traced transition cost beside that, None for others."""
        seconds, name = transition.child.seconds, step.operation.name
        if step.phase == TIMED and seconds is not None:
            self._timed.setdefault(name, []).append(seconds)
        if transition.trace is None or seconds is None:
            return None
        return f"{name} {describe_overhead(seconds, self._timed.get(name, []))}"

    def _check_files(self) -> None:
        """Refuse (ToolError, USAGE) to overwrite a trace, unless its run is continued."""
        for step in plan_steps(self._settings):
            if step.phase == TRACED and not self._settings.resume:
                path = trace_path(self._settings, step)
                if path.exists():
                    raise ToolError(f"{path} exists", "move it, or name another --output", ExitCode.USAGE)


def lost_events(where: str, transition: Transition) -> ToolError | None:
    """Return the error of a transition that failed for nothing but events its trace lost, else None."""
    if transition.error is None or transition.error != describe_losses(transition.trace):
        return None
    return ToolError(
        f"{where}: {transition.error}",
        "use a larger --trace-buffer, in a run of its own",
        ExitCode.ENVIRONMENT,
    )
