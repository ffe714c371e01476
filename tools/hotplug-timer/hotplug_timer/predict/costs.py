"""What the parts of a switch cost on a machine, from a result of `measure-costs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.records import COUNTED, OK
from hotplug_timer.compare.comparison import is_sample
from hotplug_timer.iterations import Iteration
from hotplug_timer.reader import Run
from hotplug_timer.trace.states import SpentInState, State

#: Pieces and seconds that are further apart than this are not of the same switch.
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
#: It makes buffers for the trace, which a switch without one does not need.
TRACER = "trace_rb_cpu_prepare"
#: Callbacks that do little but wait for grace periods and rebuild domains, which are counted apart. The
#: series has the cpuidle drivers of POWER not wait.
WAITING = ("pseries_cpuidle_cpu_", "powernv_cpuidle_cpu_", "sched_cpu_deactivate", "sched_cpu_activate")


@dataclass(frozen=True)
class Costs:
    """What a switch of `switched` CPUs in one direction took, and one of each of its parts. All in seconds.

    `gather` is the part of a rendezvous until all CPUs have arrived, and `turn` the rest, in which one CPU
    dies while all others spin; where the kernel does not tell it, `turn` is all of the rendezvous. `death`
    and `park` are of one CPU: the wait until firmware has stopped it, and the parking of its threads. `each`
    is what is left for each CPU, without grace periods. `crash` is the part of it that updates a loaded crash
    kernel.
    `pieces` are the traced callbacks and the lock's own grace periods, of the `traced` seconds of a switch.
    """

    direction: str
    switched: int
    seconds: float
    expedited_seconds: float
    grace_periods: float
    grace: float
    expedited: float
    gather: float
    turn: float
    rebuild: float
    park: float
    death: float
    each: float
    crash: float
    pieces: float
    traced: float


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

    `rounds` is how many switches the callbacks are of, and `traced` how many seconds one of these took.
    """

    switched: int
    seconds: float
    expedited_seconds: float
    counted: Counted
    expedited: Counted
    callbacks: Mapping[State, SpentInState]
    rounds: int
    traced: float

    def spent(self, *names: str) -> float:
        """Return the seconds of one switch in callbacks whose names begin so, in all where none is given."""
        wanted = names or ("",)
        own = (spent.own for (_, name), spent in self.callbacks.items() if name.startswith(wanted))
        return sum(own) / 1e9 / self.rounds


def measured(plain: Run, expedited: Run, direction: str, callbacks: Mapping[State, SpentInState]) -> Measured:
    """Return what two runs of `measure-costs` measured; ToolError (INPUT) when something is missing.

    CALLBACKS are those of the run with expedited grace periods.
    """
    operation = next(name for name in plain.operations if name.endswith(f":{direction}"))
    counted = _counted(plain, operation)
    switched = next(plain.iterations.select(lambda kind: kind.operation == operation)).switched
    traced = [one.seconds or 0.0 for one in expedited.recordings if one.operation == operation]
    return Measured(
        switched,
        _seconds(plain, operation),
        _seconds(expedited, operation),
        counted,
        _counted(expedited, operation),
        callbacks,
        len(traced),
        fmean(traced),
    )


def costs_of(direction: str, found: Measured) -> Costs:
    """Return the costs of a direction."""
    counted, number = found.counted, found.switched
    expedited = found.expedited.one("synchronize_rcu_expedited") or found.expedited.one("synchronize_rcu")
    rendezvous, turn = counted.one("stop_machine"), _turn(counted, number)
    park, death = found.spent(PARK), _death(found)
    each = found.spent() - found.spent(TAKEDOWN, PARK, TRACER, *WAITING)
    # Grace periods beside those of each CPU are the hotplug lock's, outside of all callbacks.
    lock = found.expedited.calls["synchronize_rcu"] % number * expedited
    return Costs(
        direction=direction,
        switched=number,
        seconds=found.seconds,
        expedited_seconds=found.expedited_seconds,
        grace_periods=counted.calls["synchronize_rcu"],
        grace=counted.one("synchronize_rcu"),
        expedited=expedited,
        gather=rendezvous - turn,
        turn=turn,
        rebuild=counted.one("domain_rebuild"),
        park=park / number,
        death=death / number,
        each=each / number,
        crash=found.spent(CRASH) / number,
        pieces=found.spent() + lock,
        traced=found.traced,
    )


def closure_of(costs: Sequence[Costs]) -> float:
    """Return what the pieces come to, of the seconds of the same switches; ToolError (INPUT) unless about 1.

    Both directions together: one of few milliseconds has as many outside of all callbacks.
    """
    seconds = sum(one.traced for one in costs)
    closure = sum(one.pieces for one in costs) / seconds if seconds else 0.0
    if not CLOSED[0] <= closure <= CLOSED[1]:
        raise ToolError(
            f"the pieces come to {closure:.2f} of the seconds of their switches, and not to {CLOSED[0]} to"
            f" {CLOSED[1]}: there is no prediction",
            AGAIN,
            ExitCode.INPUT,
        )
    return closure


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


def _death(found: Measured) -> float:
    """Return the seconds in which firmware stops CPUs and others wait: the rest of their takedown."""
    counted = found.counted.seconds
    return max(0.0, counted.get("takedown_cpu", found.spent(TAKEDOWN)) - counted["stop_machine"])


def _turn(counted: Counted, switched: int) -> float:
    """Return what one turn takes, which is all of the rendezvous where the profiler does not tell it."""
    seconds, whole = counted.seconds.get("take_cpu_down"), counted.one("stop_machine")
    return min(whole, seconds / switched) if seconds else whole


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
