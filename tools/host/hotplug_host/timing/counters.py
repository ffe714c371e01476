"""Counting what a transition costs the whole machine: grace-period waits, rendezvous, domain rebuilds.

Counts come from the kernel's own tracing, off while anything is timed. They are differences of two
readings around the transition, so switching the tracing on and off is not counted.
"""

from __future__ import annotations

import abc
import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.bulktrace import BulkTrace

#: Count name to hits.
Counts = dict[str, int]
#: Count name to seconds, of all calls together.
Durations = dict[str, float]
Number = TypeVar("Number", int, float)

TRACING_DIRS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
PROFILE = "function_profile_enabled"
#: Count name to kernel function: the first of these that a kernel can trace. 7.3 has the locked one inlined
#: into the other, where 6.12 has both and its cpusets call the locked one only. Without these a count means
#: nothing, so each has to be there.
FUNCTIONS = {
    "synchronize_rcu": ("synchronize_rcu",),
    "stop_machine": ("stop_machine_cpuslocked",),
    "domain_rebuild": ("partition_sched_domains_locked", "partition_sched_domains"),
}
#: Counted where the kernel has it: tells "the wait is gone" from "the wait is expedited".
OPTIONAL_FUNCTIONS = {"synchronize_rcu_expedited": ("synchronize_rcu_expedited",)}
#: Timed and not counted: all of a CPU's death, with the rendezvous, and its turn inside the rendezvous.
TIMED_FUNCTIONS = {"takedown_cpu": ("takedown_cpu",), "take_cpu_down": ("take_cpu_down",)}
GROUP = "hotplug_timer"
INSTANCE = "hotplug-timer"
#: Seconds in which nothing must be counted before a transition begins: switching tracing on waits for
#: grace periods itself, in 7.3 by a worker that may still be at it. Others' are waited for so often at most.
SETTLE_S, SETTLE_TRIES = 0.1, 10
#: Whether the profiler's times include sleep.
SLEEP_TIME = "options/sleep-time"
#: Kernel's "%-30.30s" in trace_stat.
STAT_NAME_WIDTH = 30
#: Microseconds in trace_stat, which has seven digits of them, and all of those before the point.
TIME = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,3})?", re.ASCII)


def traceable(wanted: Mapping[str, Sequence[str]], available: Collection[str]) -> dict[str, str]:
    """Return the function that stands for each count on a kernel that can trace AVAILABLE, if any does."""
    found = {key: next((name for name in names if name in available), None) for key, names in wanted.items()}
    return {key: name for key, name in found.items() if name}


def parse_function_stat(text: str) -> Counts:
    """Return hits per function from the text of one trace_stat/functionN file."""
    hits: Counts = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[1].isdecimal():
            hits[fields[0]] = hits.get(fields[0], 0) + int(fields[1])
    return hits


def parse_function_times(text: str) -> Durations:
    """Return seconds per function from the text of one trace_stat/functionN file.

    Empty where the kernel's profiler only counts: it times with the function graph tracer alone.
    """
    seconds: Durations = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[3] == "us" and TIME.fullmatch(fields[2]):
            seconds[fields[0]] = seconds.get(fields[0], 0.0) + float(fields[2]) / 1e6
    return seconds


def parse_kprobe_profile(text: str) -> Counts:
    """Return hits per event name from kprobe_profile; ones missed while recursing are hits as well."""
    hits: Counts = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            hits[fields[0]] = int(fields[1]) + int(fields[2])
    return hits


def parse_filter(text: str) -> str:
    """Return what to write to set_ftrace_filter to get back the filter it printed as TEXT."""
    names = []
    for line in text.splitlines():
        word = line.split()[0] if line.strip() else ""
        # "#### all functions enabled ####" is no filter; "name:traceon:..." lines are triggers,
        # which live apart from the filter and are not cleared with it.
        if word and not word.startswith("#") and ":" not in word:
            names.append(word)
    return "\n".join(names)


class Counter(abc.ABC):
    """One way to count; use it as `with counter.active(): ... counter.read() ...`."""

    #: The value of "counter" in an iteration's record.
    name: str

    def __init__(self, fs: Sysfs, tracing: str) -> None:
        self._fs = fs
        self._tracing = tracing

    @abc.abstractmethod
    def problem(self) -> str | None:
        """Return what keeps this counter from working on this kernel; None when nothing does."""

    @abc.abstractmethod
    def read(self) -> Counts:
        """Return the hits so far, summed over all CPUs; ToolError when they cannot be read."""

    def read_durations(self) -> Durations:
        """Return the seconds that the calls took so far, sleep included; empty where the kernel times none.

        A call is lost whose task ends it on a CPU that has not begun one: pin who calls.
        """
        return {}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Count inside the block; tracing is put back to what it was after it. ToolError on failure."""
        try:
            try:
                self._start()
            except OSError as error:
                raise _tracing_error("cannot start counting", error) from error
            self._settle()
            yield
        finally:
            try:
                self._stop()
            except OSError as error:
                raise _tracing_error("cannot put tracing back to what it was", error) from error

    def _settle(self) -> None:
        before = self.read()
        for _ in range(SETTLE_TRIES):
            time.sleep(SETTLE_S)
            after = self.read()
            if after == before:
                return
            before = after

    @abc.abstractmethod
    def _start(self) -> None: ...

    @abc.abstractmethod
    def _stop(self) -> None: ...

    def _file(self, name: str) -> str:
        return f"{self._tracing}/{name}"


class FunctionProfileCounter(Counter):
    """Counts with ftrace's function profiler, of which a kernel has one."""

    name = "function_profile"

    def __init__(self, fs: Sysfs, tracing: str) -> None:
        super().__init__(fs, tracing)
        self._functions: dict[str, str] = {}
        self._timed: dict[str, str] = {}
        self._saved_filter = ""
        self._saved_threshold: str | None = None

    def problem(self) -> str | None:
        """Return what keeps the function profiler from working here."""
        enabled = self._fs.read_optional(self._file(PROFILE))
        if enabled is None:
            return "the kernel lacks CONFIG_FUNCTION_PROFILER (no function_profile_enabled)"
        if enabled != "0":
            return "the function profiler is in use already (function_profile_enabled is 1)"
        text = self._fs.read_optional(self._file("available_filter_functions"))
        if text is None:
            return "the kernel lacks CONFIG_DYNAMIC_FTRACE (no available_filter_functions)"
        available = {line.split()[0] for line in text.splitlines() if line.strip()}
        self._functions = traceable({**FUNCTIONS, **OPTIONAL_FUNCTIONS}, available)
        self._timed = {**self._functions, **traceable(TIMED_FUNCTIONS, available)}
        missing = sorted(names[0] for key, names in FUNCTIONS.items() if key not in self._functions)
        if missing:
            return f"the kernel cannot trace {', '.join(missing)}"
        return None

    def read(self) -> Counts:
        """Return the hits so far, summed over the CPUs' trace_stat files."""
        totals = self._totals(parse_function_stat)
        return {key: totals.get(name[:STAT_NAME_WIDTH], 0) for key, name in self._functions.items()}

    def read_durations(self) -> Durations:
        """Return the seconds so far, summed over the CPUs' trace_stat files."""
        if self._fs.read_optional(self._file(SLEEP_TIME)) == "0":
            return {}
        totals = self._totals(parse_function_times)
        if not totals:
            return {}
        return {key: totals.get(name[:STAT_NAME_WIDTH], 0.0) for key, name in self._timed.items()}

    def _totals(self, parse: Callable[[str], dict[str, Number]]) -> dict[str, Number]:
        totals: dict[str, Number] = {}
        for path in self._fs.glob(self._file("trace_stat"), "function[0-9]*"):
            for name, number in parse(self._fs.read(self._file(f"trace_stat/{path.name}"))).items():
                totals[name] = totals[name] + number if name in totals else number
        return totals

    def _start(self) -> None:
        self._saved_filter = parse_filter(self._fs.read(self._file("set_ftrace_filter")))
        self._saved_threshold = self._fs.read_optional(self._file("tracing_thresh"))
        if self._saved_threshold not in (None, "0"):
            self._fs.write(self._file("tracing_thresh"), "0")  # it would hide quick functions
        # The profiler takes the filter over when it is switched on, so this comes first.
        self._fs.write(self._file("set_ftrace_filter"), "\n".join(self._timed.values()) + "\n")
        self._fs.write(self._file(PROFILE), "1")

    def _stop(self) -> None:
        self._fs.write(self._file(PROFILE), "0")
        self._fs.write(self._file("set_ftrace_filter"), f"{self._saved_filter}\n")
        if self._saved_threshold not in (None, "0"):
            self._fs.write(self._file("tracing_thresh"), str(self._saved_threshold))


class KprobeCounter(Counter):
    """Counts with kprobe events of an own group, enabled in an own trace instance."""

    name = "kprobe"

    def __init__(self, fs: Sysfs, tracing: str) -> None:
        super().__init__(fs, tracing)
        self._defined: list[str] = []

    def problem(self) -> str | None:
        """Return what keeps kprobe events from working here; tries them once."""
        if not self._fs.exists(self._file("kprobe_events")):
            return "the kernel lacks CONFIG_KPROBE_EVENTS (no kprobe_events)"
        try:
            self._stop()  # what a run that was killed left behind
            for key, functions in FUNCTIONS.items():
                self._define(key, functions)
        except OSError as error:
            return f"the kernel refuses a kprobe on {functions[0]} ({error.strerror})"
        finally:
            self._stop()
        return None

    def read(self) -> Counts:
        """Return the hits so far."""
        hits = parse_kprobe_profile(self._fs.read(self._file("kprobe_profile")))
        return {key: hits.get(_event(key), 0) for key in self._defined}

    def _start(self) -> None:
        for key, functions in FUNCTIONS.items():
            self._define(key, functions)
        for key, functions in OPTIONAL_FUNCTIONS.items():
            with contextlib.suppress(OSError):
                self._define(key, functions)
        self._fs.mkdir(self._file(f"instances/{INSTANCE}"))
        # Hits are what counts; the records themselves may be overwritten.
        self._fs.write(self._file(f"instances/{INSTANCE}/buffer_size_kb"), "4")
        self._fs.write(self._file(f"instances/{INSTANCE}/events/{GROUP}/enable"), "1")

    def _stop(self) -> None:
        instance = self._file(f"instances/{INSTANCE}")
        if self._fs.exists(instance):
            with contextlib.suppress(OSError):  # there may be no events in it yet
                self._fs.write(f"{instance}/events/{GROUP}/enable", "0")
            self._fs.rmdir(instance)
        for line in (self._fs.read_optional(self._file("kprobe_events")) or "").splitlines():
            event = line.split()[0].partition(":")[2] if line.strip() else ""
            if event.startswith(f"{GROUP}/"):
                self._fs.append(self._file("kprobe_events"), f"-:{event}\n")
        self._defined = []

    def _define(self, key: str, functions: Sequence[str]) -> None:
        *others, last = functions
        for function in others:
            with contextlib.suppress(OSError):
                self._define_on(key, function)
                return
        self._define_on(key, last)

    def _define_on(self, key: str, function: str) -> None:
        self._fs.append(self._file("kprobe_events"), f"p:{GROUP}/{_event(key)} {function}\n")
        self._defined.append(key)


class CounterWithChunks(Counter):
    """Another counter, and beside it the chunks of bulk transitions."""

    def __init__(self, fs: Sysfs, tracing: str, inner: Counter) -> None:
        super().__init__(fs, tracing)
        self.name = inner.name
        self._inner = inner
        self._bulk = BulkTrace(fs, tracing)

    def problem(self) -> str | None:
        """Return what keeps the other counter from working."""
        return self._inner.problem()

    def read(self) -> Counts:
        """Return the hits and chunks so far."""
        return {**self._inner.read(), **self._bulk.read()}

    def read_durations(self) -> Durations:
        """Return the seconds so far."""
        return self._inner.read_durations()

    def _start(self) -> None:
        self._bulk.start()
        self._inner._start()

    def _stop(self) -> None:
        try:
            self._inner._stop()
        finally:
            self._bulk.stop()


def require_durations(fs: Sysfs) -> None:
    """Refuse a kernel that cannot time what it counts (ToolError, ENVIRONMENT), naming what it lacks."""
    tracing = find_tracing(fs) or TRACING_DIRS[0]
    problem = FunctionProfileCounter(fs, tracing).problem()
    tracers = (fs.read_optional(f"{tracing}/available_tracers") or "").split()
    if problem is None and "function_graph" not in tracers:
        problem = "the kernel lacks CONFIG_FUNCTION_GRAPH_TRACER, without which the profiler only counts"
    if problem is None and fs.read_optional(f"{tracing}/{SLEEP_TIME}") == "0":
        problem = f"{fs.path(tracing) / SLEEP_TIME} leaves sleep out"
    if problem is not None:
        raise ToolError(
            f"cannot time grace periods: {problem}",
            f"mount tracefs on {TRACING_DIRS[0]}, write 0 to function_profile_enabled if a killed measurement"
            " left it on and 1 to sleep-time, or boot a kernel that has it",
            ExitCode.ENVIRONMENT,
        )


def find_tracing(fs: Sysfs) -> str | None:
    """Return the directory of tracefs; None where it is not mounted."""
    return next((name for name in TRACING_DIRS if fs.exists(f"{name}/available_tracers")), None)


def choose_counter(fs: Sysfs) -> Counter:
    """Return the first counter that works here; ToolError (ENVIRONMENT) naming what the kernel lacks."""
    tracing = find_tracing(fs)
    hint = "or measure seconds only with --count-iterations 0"
    if tracing is None:
        raise ToolError(
            f"cannot count grace periods: no tracing files in {fs.path(TRACING_DIRS[0])}",
            f"mount -t tracefs tracefs {TRACING_DIRS[0]} on a kernel with CONFIG_FTRACE, {hint}",
            ExitCode.ENVIRONMENT,
        )
    problems = []
    for counter in (FunctionProfileCounter(fs, tracing), KprobeCounter(fs, tracing)):
        problem = counter.problem()
        if problem is None:
            has_chunks = BulkTrace(fs, tracing).is_available()
            return CounterWithChunks(fs, tracing, counter) if has_chunks else counter
        problems.append(problem)
    raise ToolError(
        f"cannot count grace periods: {' and '.join(problems)}",
        f"use a kernel with one of them, {hint}",
        ExitCode.ENVIRONMENT,
    )


def subtract(after: Mapping[str, Number], before: Mapping[str, Number]) -> dict[str, Number]:
    """Return what came between two readings."""
    return {key: after[key] - before.get(key, 0) for key in after}


def _event(key: str) -> str:
    # kprobe_profile lists events without their group, so the event's own name has to be unique.
    return f"{GROUP}_{key}"


def _tracing_error(what: str, error: OSError) -> ToolError:
    where = f"{error.filename}: " if error.filename else ""
    return ToolError(
        f"{what}: {where}{error.strerror}",
        "measure seconds only with --count-iterations 0",
        ExitCode.ENVIRONMENT,
    )
