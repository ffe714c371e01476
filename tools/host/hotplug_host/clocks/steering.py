"""Making the system clock run fast or slow for a while, and putting it back whatever becomes of the tool."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest

#: include/uapi/linux/timex.h
ADJ_FREQUENCY, ADJ_SETOFFSET, ADJ_NANO, ADJ_TICK = 0x0002, 0x0100, 0x2000, 0x4000
STA_PLL, STA_UNSYNC = 0x0001, 0x0040
#: What NTP may steer by at most.
MOST_PPM = 500.0
FREQ_PER_PPM = 1 << 16
#: Microseconds in a tick of user space (USER_HZ is 100 everywhere).
NOMINAL_TICK = 10_000
NSEC_PER_SEC = 1_000_000_000
#: Less than this is not worth a step of the clock.
LEAST_STEP_NS = 1000
#: What no steering makes of the clock: somebody else has set it.
OTHERS_PPM, OTHERS_NS = 2000, 1_000_000


class Timeval(ctypes.Structure):
    """struct timeval."""

    _fields_ = (("tv_sec", ctypes.c_long), ("tv_usec", ctypes.c_long))


class Timex(ctypes.Structure):
    """struct timex."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", Timeval),
        ("tick", ctypes.c_long),
        ("pps", ctypes.c_long * 8),
        ("tai", ctypes.c_int),
        ("padding", ctypes.c_int * 11),
    )


@dataclass(frozen=True)
class Rate:
    """How fast the clock runs, as adjtimex has it; `kept` is whether a daemon keeps it to another one."""

    freq: int
    tick: int = NOMINAL_TICK
    kept: bool = False

    @property
    def ratio(self) -> float:
        """Seconds of the clock in a second of the counter."""
        return self.tick / NOMINAL_TICK + self.freq / FREQ_PER_PPM * 1e-6


def steered(ppm: float) -> Rate:
    """Return the rate that is so many parts per million fast."""
    return Rate(round(ppm * FREQ_PER_PPM))


class SystemClock:
    """The kernel's clock."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def rate(self) -> Rate:
        """Read it."""
        state = self._adjust(Timex())
        return Rate(state.freq, state.tick, bool(state.status & STA_PLL or not state.status & STA_UNSYNC))

    def set_rate(self, rate: Rate) -> None:
        """Set it; OSError as the kernel returns it."""
        self._adjust(Timex(modes=ADJ_FREQUENCY | ADJ_TICK, freq=rate.freq, tick=rate.tick))

    def step(self, ns: int) -> None:
        """Set the clock forward, or back when it is less than 0; OSError as the kernel returns it."""
        seconds, rest = divmod(ns, NSEC_PER_SEC)
        self._adjust(Timex(modes=ADJ_SETOFFSET | ADJ_NANO, time=Timeval(seconds, rest)))

    def reading(self) -> tuple[int, int]:
        """Return what the clock shows, and the counter at the same time, in nanoseconds."""
        readings = []
        for _ in range(5):
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            shown = time.clock_gettime_ns(time.CLOCK_REALTIME)
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            readings.append((after - before, shown, (before + after) // 2))
        _, shown, counter = min(readings)
        return shown, counter

    def _adjust(self, request: Timex) -> Timex:
        if self._libc.adjtimex(ctypes.byref(request)) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return request


@dataclass(frozen=True)
class Restorer:
    """What the clock was before, and putting it back: its rate, and what it has gained meanwhile."""

    clock: SystemClock
    before: Rate
    shown: int
    counter: int

    @classmethod
    def of(cls, clock: SystemClock) -> Restorer:
        """Note what it is now."""
        return cls(clock, clock.rate(), *clock.reading())

    def restore(self) -> list[str]:
        """Put it back; returns what could not be, in words."""
        try:
            self.clock.set_rate(self.before)
            problem = self._step_back()
        except OSError as error:
            return [f"the clock could not be put back: {error.strerror}"]
        return [problem] if problem else []

    def _step_back(self) -> str | None:
        shown, counter = self.clock.reading()
        elapsed = counter - self.counter
        gained = shown - self.shown - round(elapsed * self.before.ratio)
        if abs(gained) > elapsed * OTHERS_PPM * 1e-6 + OTHERS_NS:
            return f"the clock was set by {gained / NSEC_PER_SEC:.3f} s meanwhile, and left so"
        if abs(gained) >= LEAST_STEP_NS:
            self.clock.step(-gained)
        return None


@dataclass
class Kept:
    """What became of what was to be undone."""

    problems: list[str] = field(default_factory=list)


@contextlib.contextmanager
def kept(undo: Callable[[], list[str]]) -> Iterator[Kept]:
    """Have UNDO called once after the block, by a process of its own: whatever becomes of this one.

    It is forked here, before anything is changed, and calls UNDO when this process leaves the block or is
    gone, SIGKILL included, and when it is told to end. If it was killed itself, UNDO is called here.
    """
    found = Kept()
    words, mine = os.pipe()
    answers, reports = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(mine)
        os.close(answers)
        _keep(undo, words, reports)
    os.close(words)
    os.close(reports)
    try:
        yield found
    finally:
        os.close(mine)
        with os.fdopen(answers, encoding="utf-8") as stream:
            report = stream.read()
        os.waitpid(pid, 0)
        found.problems = json.loads(report) if report.endswith("]") else undo()


def _keep(undo: Callable[[], list[str]], words: int, reports: int) -> NoReturn:
    """Be the process that undoes: never returns."""
    try:
        os.setsid()
        for signum in (signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        stop = StopRequest()
        with stop.installed():
            _wait(words, stop)
            problems = undo()
        with contextlib.suppress(OSError):
            os.write(reports, json.dumps(problems).encode())
    finally:
        os._exit(0)


def _wait(words: int, stop: StopRequest) -> None:
    """Until the other end of WORDS is closed, or somebody asks to stop."""
    while not stop.requested:
        if words in select.select([words, stop.fileno()], [], [])[0] and not os.read(words, 1):
            return
        stop.drain()


def require_free(rate: Rate, force: bool) -> None:
    """ToolError (ENVIRONMENT) when somebody else steers the clock, unless that does not matter."""
    if rate.kept and not force:
        raise ToolError(
            "the clock is kept by NTP, which would steer against this, and be steered by it",
            "stop the daemon (chronyd, ntpd, systemd-timesyncd) first, or add --force",
            ExitCode.ENVIRONMENT,
        )
