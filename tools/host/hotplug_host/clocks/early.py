"""Whether timers fire when they should while the clock is steered, by what the hardware is programmed to.

The judge is what is programmed: the ticks handed to the timer against those that the time until the expiry
takes at the clock's rate. That needs no quiet machine. Interrupts and distances show what comes of it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

from hotplug_host.clocks import table
from hotplug_host.clocks.probe import StoppedError, stopped
from hotplug_host.clocks.steering import Restorer, SystemClock, kept, require_free, steered
from hotplug_host.clocks.timertrace import EXPIRE, INTERRUPTS, Device, Event, TimerTrace, read_device
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs

NSEC_PER_SEC = 1_000_000_000
#: The kernel may wake a sleeper that much later, to save interrupts, unless told otherwise.
LEAST_SLACK_NS = 1
PR_SET_TIMERSLACK = 29
TIMER_ABSTIME = 1
#: What cannot be avoided: times are whole nanoseconds, ticks are whole.
ROUNDING_NS, ROUNDING_TICKS = 1.0, 1.0
#: An error of less than one in so many cannot be told from rounding.
LEAST_TICKS = 1000
#: An interrupt is early if it comes before the expiry by no more than steering explains.
EARLY_PPM, EARLY_NS = 1000, 20_000
#: Settling after the rate was changed: more than a second, in which NTP applies it.
SETTLE_S = 1.5
#: Sleeps that the deadlines of coupled devices are held against: their length, and how many at most.
ANCHOR_NS, ANCHOR_TRIES = 10_000_000, 10


@dataclass(frozen=True)
class Plan:
    """What to measure: sleeps in seconds at rates in parts per million, on one CPU."""

    cpu: int
    ppms: tuple[float, ...]
    sleeps: tuple[float, ...]
    most_ppm: float
    force: bool


@dataclass(frozen=True)
class Anchor:
    """A deadline that was close when it was programmed, so that it is right: of a coupled device."""

    expires: int
    cycles: int


@dataclass(frozen=True)
class Sleep:
    """One sleep, until `expires`, and how it went; `worst_ppm` is None where nothing programmed was seen."""

    ppm: float
    seconds: float
    programmings: int
    worst_ppm: float | None
    interrupts: int
    early: int
    early_us: float
    late_us: float


@dataclass(frozen=True)
class Programming:
    """The ticks that were programmed, and those that it takes."""

    ticks: float
    exact: float

    @property
    def error_ppm(self) -> float:
        """How far it is off, beyond what rounding explains."""
        return (self.ticks - self.exact) / self.exact * 1e6


def programmings(
    events: Sequence[Event], expires: int, ratio: float, device: Device, anchor: Anchor | None
) -> list[Programming]:
    """Return what was programmed for the timer that expires then; RATIO is the clock's to its counter."""
    rate = device.rate / ratio
    found, until, now = [], None, 0
    for event in events:
        if event.name == "program":
            until, now = _ours(event, expires), 0
        elif event.name == "now":
            now = event.fields["now"]
        elif until is None:
            continue
        elif event.name == "ticks" and 0 < until - now < device.max_ns * 0.99:
            found.append(Programming(event.fields["ticks"], (until - now) * rate))
        elif _is_deadline(event) and anchor is not None:
            exact = (until - anchor.expires) * rate
            found.append(Programming(event.fields["cycles"] - anchor.cycles, exact))
    return [one for one in found if one.exact >= LEAST_TICKS]


def _ours(event: Event, expires: int) -> int | None:
    """Return until when the timer is programmed, if it is for this sleep: the kernel adds the slack."""
    until = event.fields["expires"]
    return until if 0 <= until - expires <= LEAST_SLACK_NS else None


def _is_deadline(event: Event) -> bool:
    """Whether it has the deadline of a coupled device: 0 is none; a kernel may return 1 for any."""
    return event.name == "deadline" and event.fields["cycles"] > 1


def find_anchor(events: Sequence[Event], expires: int) -> Anchor | None:
    """Return the last deadline of a short sleep; None where the device is not coupled."""
    until, found = None, None
    for event in events:
        if event.name == "program":
            until = _ours(event, expires)
        elif until is not None and _is_deadline(event):
            found = Anchor(until, event.fields["cycles"])
    return found


def first_anchor(sleeps: Iterable[tuple[int, int, Sequence[Event]]]) -> Anchor | None:
    """Return that of the first short sleep that has one; those are none for which another timer came first.

    A sleep is when it expires, when it ended, and what was seen; no more are slept than it takes.
    """
    return next((anchor for expires, _, events in sleeps if (anchor := find_anchor(events, expires))), None)


def worst_ppm(found: Sequence[Programming], device: Device) -> float | None:
    """Return the largest error beyond rounding, with its sign; None where nothing was seen."""
    rounding = ROUNDING_TICKS + ROUNDING_NS * device.rate
    beyond = [
        max(abs(one.ticks - one.exact) - rounding, 0.0) / one.exact * 1e6 * (-1 if one.error_ppm < 0 else 1)
        for one in found
    ]
    return max(beyond, key=abs) or 0.0 if beyond else None


def early_interrupts(events: Sequence[Event], expires: int, length_ns: int) -> tuple[int, int, float]:
    """Return how many timer interrupts came, how many of them a little early, and by how many us at most."""
    names = {name.rpartition("/")[2] for name in INTERRUPTS}
    times = [event.time_ns for event in events if event.name in names]
    window = length_ns * EARLY_PPM * 1e-6 + EARLY_NS
    # The trace has microseconds
    before = [expires - at for at in times if 1000 < expires - at <= window]
    return len(times), len(before), max(before, default=0) / 1000


def late_us(events: Sequence[Event], expires: int, woke: int) -> float:
    """Return how late the timer expired, or else how late the sleeper woke."""
    name = EXPIRE.rpartition("/")[2]
    seen = [event.fields["now"] for event in events if event.name == name and "now" in event.fields]
    return (min((at for at in seen if at >= expires), default=woke) - expires) / 1000


def problem(sleeps: Sequence[Sleep], most_ppm: float) -> str | None:
    """Say what is wrong; None when nothing is."""
    seen = [sleep for sleep in sleeps if sleep.worst_ppm is not None]
    worst = max(seen, key=lambda sleep: abs(sleep.worst_ppm or 0.0), default=None)
    if worst is None or abs(worst.worst_ppm or 0.0) <= most_ppm:
        return None
    return (
        f"a sleep of {worst.seconds:g} s, the clock steered by {worst.ppm:+g} ppm, was programmed"
        f" {worst.worst_ppm:+.3g} ppm off"
    )


class Sleeper:
    """Sleeps on one CPU until a moment of CLOCK_MONOTONIC, and as exactly as the kernel does it."""

    def __init__(self, cpu: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        os.sched_setaffinity(0, {cpu})
        self._libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(LEAST_SLACK_NS), 0, 0, 0)

    def until(self, expires: int) -> int:
        """Sleep; returns what the clock shows afterwards. StoppedError when a signal came."""
        words = (ctypes.c_long * 2)(*divmod(expires, NSEC_PER_SEC))
        code = self._libc.clock_nanosleep(time.CLOCK_MONOTONIC, TIMER_ABSTIME, words, None)
        if code == errno.EINTR:
            raise StoppedError
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Check:
    """Carries out a plan."""

    def __init__(self, fs: Sysfs, plan: Plan, stop: StopRequest, clock: SystemClock) -> None:
        self._plan = plan
        self._stop = stop
        self._clock = clock
        self.device = read_device(fs, plan.cpu)
        self.trace = TimerTrace(fs, plan.cpu)

    def execute(self, told: TextIO) -> list[Sleep]:
        """Measure; ToolError unless everything is as before afterwards."""
        restorer = Restorer.of(self._clock)
        require_free(restorer.before, self._plan.force)

        def undo() -> list[str]:
            return restorer.restore() + self.trace.remove()

        done: list[Sleep] = []
        failure: ToolError | None = None
        with kept(undo) as left, self._stop.installed():
            try:
                self._measure(done, told)
            except StoppedError:
                failure = stopped(self._stop, "the clock is as it was; what was measured is not kept")
            except ToolError as error:
                failure = error
        if left.problems:
            words = [failure.message] if failure else []
            raise ToolError("; ".join(words + left.problems), "set the clock yourself", ExitCode.OPERATION)
        if failure:
            raise failure
        return done

    def _measure(self, done: list[Sleep], told: TextIO) -> None:
        self.trace.start(self.device)
        sleeper = Sleeper(self._plan.cpu)
        for ppm in self._plan.ppms:
            done += self._at(ppm, sleeper, told)

    def _at(self, ppm: float, sleeper: Sleeper, told: TextIO) -> list[Sleep]:
        self._steer(ppm)
        anchor = first_anchor(self._sleep(sleeper, ANCHOR_NS) for _ in range(ANCHOR_TRIES))
        done = []
        for seconds in self._plan.sleeps:
            expires, woke, events = self._sleep(sleeper, round(seconds * NSEC_PER_SEC))
            ratio = steered(ppm).ratio
            found = programmings(events, expires, ratio, self.device, anchor)
            counts = early_interrupts(events, expires, round(seconds * NSEC_PER_SEC))
            late = late_us(events, expires, woke)
            done.append(Sleep(ppm, seconds, len(found), worst_ppm(found, self.device), *counts, late))
            told.write(f"clock-check: {operation(done[-1])} done\n")
        return done

    def _steer(self, ppm: float) -> None:
        try:
            self._clock.set_rate(steered(ppm))
        except OSError as error:
            raise ToolError(
                f"cannot steer the clock: {error.strerror}", "run it as root", ExitCode.ENVIRONMENT
            ) from error
        self._stop.sleep(SETTLE_S)
        if self._stop.requested:
            raise StoppedError

    def _sleep(self, sleeper: Sleeper, length_ns: int) -> tuple[int, int, list[Event]]:
        if self._stop.requested:
            raise StoppedError
        with self.trace.running() as events:
            expires = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + length_ns
            woke = sleeper.until(expires)
        return expires, woke, events


def operation(sleep: Sleep) -> str:
    """Name a sleep."""
    return f"early/{sleep.seconds:g}s/{sleep.ppm:+g}ppm"


def render(device: Device, sleeps: Sequence[Sleep]) -> str:
    """Return the table."""
    return table.render([(device.name, operation(sleep), [_cells(sleep)]) for sleep in sleeps])


def to_json(device: Device, sleeps: Sequence[Sleep]) -> str:
    """Return the same as JSON, one line."""
    return json.dumps({"device": asdict(device), "sleeps": [asdict(sleep) for sleep in sleeps]})


def _cells(sleep: Sleep) -> dict[str, float]:
    seen = {} if sleep.worst_ppm is None else {"programmed ppm off": sleep.worst_ppm}
    return {
        **seen,
        "interrupts": sleep.interrupts,
        "early ones": sleep.early,
        "early us": sleep.early_us,
        "late us": sleep.late_us,
    }


def check(fs: Sysfs, plan: Plan, stop: StopRequest, *, as_json: bool) -> None:
    """Measure and print; ToolError when what is programmed is too far off."""
    if os.geteuid() != 0:
        raise ToolError("steering the clock and tracing need root", "run it with sudo", ExitCode.ENVIRONMENT)
    work = Check(fs, plan, stop, SystemClock())
    sleeps = work.execute(sys.stderr)
    sys.stdout.write(f"{to_json(work.device, sleeps)}\n" if as_json else render(work.device, sleeps))
    if not work.trace.programmed:
        sys.stderr.write("clock-check: this kernel has no kprobes: what is programmed was not seen\n")
    found = problem(sleeps, plan.most_ppm)
    if found:
        raise ToolError(found, "look for a kernel that follows the clock's rate", ExitCode.OPERATION)
