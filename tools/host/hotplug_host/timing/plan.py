"""What a run is asked to do: its settings, and the steps they come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.records import COUNTED, TIMED, TRACED, WARMUP
from hotplug_host.timing.hooks import Hook, Hooks
from hotplug_host.timing.operation import Operation
from hotplug_host.timing.share import Sharing
from hotplug_host.timing.step import Step


@dataclass(frozen=True)
class Settings:
    """What the user asked for; times are in seconds."""

    operations: tuple[Operation, ...]
    variant: str
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
    prepare: Hook | None = None
    cleanup: Hook | None = None
    #: The modes to trace in, one iteration each, and the buffer of each CPU in KiB (None: a fitting one).
    traces: tuple[str, ...] = ()
    trace_buffer_kb: int | None = None
    #: Whether traces, of hotplug states alone, are recorded as text without trace-cmd.
    traces_as_text: bool = False
    #: Whether the run is written behind what the output holds.
    append: bool = False
    #: How CPUs share processors, where that was measured.
    sharing: Sharing | None = None

    def iterations_of(self, phase: str) -> int:
        """Return how many iterations a phase has."""
        return {
            WARMUP: self.warmup,
            TIMED: self.iterations,
            COUNTED: self.count_iterations,
            TRACED: len(self.traces),
        }[phase]

    @property
    def hooks(self) -> Hooks:
        """Return the commands to run around each transition."""
        return Hooks(self.prepare, self.cleanup, self.timeout_s)

    def timeout_of(self, operation: Operation) -> float:
        """Return how many seconds an operation may take."""
        return self.timeout_s if operation.timeout_s is None else operation.timeout_s


def plan_steps(settings: Settings) -> Iterator[Step]:
    """Yield the steps of a whole run, in order."""
    for phase in (WARMUP, TIMED, COUNTED, TRACED):
        for index in range(1, settings.iterations_of(phase) + 1):
            for position, operation in enumerate(settings.operations):
                yield Step(phase, index, position, operation)


def trace_path(settings: Settings, step: Step) -> Path:
    """Return the file a traced step is recorded into: beside the result file, named by operation and mode."""
    # scp takes what is before a colon for a host.
    operation, mode = step.operation.name.replace(":", "-"), settings.traces[step.index - 1]
    suffix = "txt" if settings.traces_as_text else "dat"
    return settings.output.with_name(f"{settings.output.stem}.{operation}.{mode}.{suffix}")
