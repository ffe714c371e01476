"""What the parts of a switch cost on a machine, from a result of `measure-costs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import OFF
from hotplug_host.records import COUNTED, OK
from hotplug_timer.compare.comparison import is_sample
from hotplug_timer.iterations import Iteration
from hotplug_timer.reader import Run
from hotplug_timer.trace.states import SpentInState, State

#: Pieces and timed seconds that are further apart than this are not of the same switch.
CLOSED = (0.9, 1.1)
AGAIN = "measure again on a quiet machine, into another --output"
#: Callbacks whose time is told apart. The first one is entered to have others run; the crash kernel's only
#: goes where none is loaded, or the kernel leaves its device tree alone.
KICK, TAKEDOWN, PARK, CRASH = (
    "cpuhp_kick_ap_work",
    "takedown_cpu",
    "smpboot_park_threads",
    "crash_cpuhp_online",
)
#: Parts of a switch that the profiler times.
COUNTED_PARTS = ("synchronize_rcu", "stop_machine", "domain_rebuild")
#: cpuidle drivers that wait for a grace period for each CPU, on POWER.
CPUIDLE = ("pseries_cpuidle_cpu_", "powernv_cpuidle_cpu_")


@dataclass(frozen=True)
class Costs:
    """What a switch of `switched` CPUs in one direction took, and one of each of its parts. All in seconds.

    `death`, `park` and `turn` are of one CPU: the wait until firmware has stopped it, the parking of its
    threads, and its turn inside the rendezvous, a part of `rendezvous` which is None where the kernel does
    not tell it. `each` is what is left for each CPU, and `each_expedited` the same of the rounds with
    expedited grace periods. `crash` is the part of it that updates a loaded crash kernel.
    `kept` is for how many grace periods each CPU waits in callbacks that the series leaves alone.
    `closure` is what the traced callbacks and the lock's own grace periods come to, of the timed seconds.
    """

    direction: str
    switched: int
    seconds: float
    expedited_seconds: float
    grace_periods: float
    grace: float
    expedited: float
    rendezvous: float
    turn: float | None
    rebuild: float
    park: float
    death: float
    each: float
    each_expedited: float
    crash: float
    kept: int
    closure: float


@dataclass(frozen=True)
class Counted:
    """The mean of counted switches: calls, and the seconds of all of them together."""

    calls: Mapping[str, float]
    seconds: Mapping[str, float]

    def one(self, name: str) -> float:
        """Return the seconds of one call; 0 where there was none."""
        calls = self.calls.get(name, 0.0)
        return self.seconds.get(name, 0.0) / calls if calls else 0.0


@dataclass(frozen=True)
class Measured:
    """What was measured of one direction: with normal and with expedited grace periods, and the callbacks.

    `rounds` is how many switches the callbacks are of.
    """

    switched: int
    seconds: float
    expedited_seconds: float
    counted: Counted
    expedited: Counted
    callbacks: Mapping[State, SpentInState]
    rounds: int

    def spent(self, *names: str) -> float:
        """Return the seconds of one switch in callbacks of these names, in all where none is given."""
        own = (spent.own for (_, name), spent in self.callbacks.items() if not names or name in names)
        return sum(own) / 1e9 / self.rounds


def measured(plain: Run, expedited: Run, direction: str, callbacks: Mapping[State, SpentInState]) -> Measured:
    """Return what two runs of `measure-costs` measured; ToolError (INPUT) when something is missing."""
    operation = next(name for name in plain.operations if name.endswith(f":{direction}"))
    counted = _counted(plain, operation)
    switched = next(plain.iterations.select(lambda kind: kind.operation == operation)).switched
    return Measured(
        switched,
        _seconds(plain, operation),
        _seconds(expedited, operation),
        counted,
        _counted(expedited, operation),
        callbacks,
        sum(recording.operation == operation for recording in plain.recordings),
    )


def costs_of(direction: str, found: Measured) -> Costs:
    """Return the costs; ToolError (INPUT) unless the pieces come to the timed seconds."""
    counted, each = found.counted, found.switched
    # Grace periods beside those of each CPU are the hotplug lock's, outside of all callbacks.
    lock = counted.calls["synchronize_rcu"] % each * counted.one("synchronize_rcu")
    closure = (found.spent() + lock) / found.seconds
    if not CLOSED[0] <= closure <= CLOSED[1]:
        raise ToolError(
            f"{direction}: the pieces come to {closure:.2f} of the timed seconds, and not to"
            f" {CLOSED[0]} to {CLOSED[1]}: there is no prediction",
            AGAIN,
            ExitCode.INPUT,
        )
    park = found.spent(PARK)
    rendezvous = counted.seconds["stop_machine"]
    death = max(0.0, found.spent(TAKEDOWN) - rendezvous)
    parts = sum(counted.seconds[name] for name in COUNTED_PARTS) + park + death
    if parts > CLOSED[1] * found.seconds:
        raise ToolError(
            f"{direction}: its parts come to {parts:.3f} s, and it took {found.seconds:.3f} s: there is no"
            " prediction",
            AGAIN,
            ExitCode.INPUT,
        )
    expedited, left = "synchronize_rcu_expedited", _left(found.seconds, counted, park + death)
    return Costs(
        direction=direction,
        switched=each,
        seconds=found.seconds,
        expedited_seconds=found.expedited_seconds,
        grace_periods=counted.calls["synchronize_rcu"],
        grace=counted.one("synchronize_rcu"),
        expedited=found.expedited.one(expedited) or found.expedited.one("synchronize_rcu"),
        rendezvous=counted.one("stop_machine"),
        turn=_turn(counted, each),
        rebuild=counted.one("domain_rebuild"),
        park=park / each,
        death=death / each,
        each=left / each,
        each_expedited=_left(found.expedited_seconds, found.expedited, park + death) / each,
        crash=found.spent(CRASH) / each,
        kept=_kept(direction, found),
        closure=closure,
    )


def hindering(
    callbacks: Mapping[State, SpentInState], states: Mapping[int, str], marked: frozenset[str]
) -> tuple[str, ...]:
    """Return the states that have CPUs go one by one: torn down while a CPU is online, not marked.

    CALLBACKS are those of CPUs that went off, STATES the kernel's names by step, MARKED names of states and
    of teardown callbacks. A state without a teardown, or without an instance, has not run and does not count.
    """
    below = next((step for step, name in callbacks if name == TAKEDOWN), 0)
    return tuple(
        states.get(step, name)
        for step, name in sorted(callbacks)
        if step > below and name != KICK and not {name, states.get(step, name)} & marked
    )


def _kept(direction: str, found: Measured) -> int:
    """Return for how many grace periods a CPU waits, less those that the series does without."""
    waits = found.counted.calls["synchronize_rcu"] // found.switched
    cpuidle = any(name.startswith(CPUIDLE) for _, name in found.callbacks)
    return max(0, int(waits) - cpuidle - (direction == OFF))


def _left(seconds: float, counted: Counted, more: float) -> float:
    """Return the seconds of a switch without its timed parts and MORE."""
    return max(0.0, seconds - more - sum(counted.seconds[name] for name in COUNTED_PARTS))


def _turn(counted: Counted, switched: int) -> float | None:
    seconds = counted.seconds.get("take_cpu_down")
    return None if not seconds else min(counted.one("stop_machine"), seconds / switched)


def _seconds(run: Run, operation: str) -> float:
    seconds = run.iterations.seconds(lambda kind: is_sample(kind, operation))
    if not len(seconds):
        raise ToolError(f"{run.source}: {operation} was not timed", AGAIN, ExitCode.INPUT)
    return float(fmean(seconds))


def _counted(run: Run, operation: str) -> Counted:
    items = [
        item
        for item in run.iterations.select(
            lambda kind: (kind.operation, kind.phase, kind.status) == (operation, COUNTED, OK)
        )
        if item.counts is not None and item.durations is not None
    ]
    if not items:
        raise ToolError(
            f"{run.source}: the grace periods of {operation} were not timed",
            "give a result of hotplug-timer measure-costs",
            ExitCode.INPUT,
        )
    return Counted(
        _means(items, lambda item: item.counts or {}), _means(items, lambda item: item.durations or {})
    )


def _means(items: list[Iteration], of: Callable[[Iteration], Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(of(item).get(name, 0.0) for item in items) for name in of(items[0])}
