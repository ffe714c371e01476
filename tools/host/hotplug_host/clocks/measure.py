"""The measurements: one call each, which gives the outcome as the result file has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from hotplug_host.clocks import cpufreq
from hotplug_host.clocks.departure import (
    SECONDS_PER_DAY,
    Departure,
    Offset,
    departure,
    read_offsets,
    read_samples,
)
from hotplug_host.clocks.probe import Line, Probe
from hotplug_host.clocks.threads import (
    ThreadResult,
    fairness,
    rates,
    read_threads,
    seconds_per_call,
    slowest_share,
)
from hotplug_host.cpulist import format_cpulist
from hotplug_host.guardian import Purpose
from hotplug_host.setting import Setting
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import describe_cpus

VDSO, SYSCALL = "vdso", "syscall"
SCALE, ORDER, DRIFT = "scale", "order", "drift"
PATHS = (VDSO, SYSCALL)
#: Samples of `scale` and `order` are of so many calls: one takes nanoseconds, hard to read in seconds.
CALLS_PER_SAMPLE = 1_000_000
#: What problems of a sort are named before the rest is only counted.
MAX_NAMED = 3
NS = 1_000_000_000


@dataclass(frozen=True)
class Outcome:
    """What came of one measurement.

    `seconds` is the sample (docs/reference/result-format.md); `problem` is what is wrong with the clock,
    None when nothing is; `moved` are CPUs that threads were moved away from. `detail` goes into the record,
    `cells` into the table that is printed, by heading.
    """

    seconds: float
    problem: str | None
    moved: frozenset[int]
    detail: Mapping[str, object]
    cells: Mapping[str, float]


@dataclass(frozen=True)
class Caller:
    """How measurements call the probe: on which CPUs, for how long at most, and who is told meanwhile."""

    probe: Probe
    cpus: tuple[int, ...]
    timeout_s: float
    on_tick: Callable[[], None]

    def lines(self, command: str, *arguments: str) -> list[Line]:
        """Call it, for as many lines as it prints."""
        return self.probe.run(self._words(command, arguments), self.timeout_s, self.on_tick)

    def line(self, command: str, *arguments: str) -> Line:
        """Call it, for one line."""
        return self.probe.one(self._words(command, arguments), self.timeout_s, self.on_tick)

    def _words(self, command: str, arguments: Sequence[str]) -> list[str]:
        return [command, "--cpus", format_cpulist(self.cpus), *arguments]


@dataclass(frozen=True)
class Measurement:
    """One operation: its name, what does it, and the settings that are held meanwhile, for which purpose.

    `gives` is the name of its detail in records: SCALE, ORDER or DRIFT.
    """

    operation: str
    gives: str
    perform: Callable[[Caller], Outcome]
    settings: tuple[Setting, ...] = ()
    purpose: Purpose | None = None


def scale(path: str, threads: int, seconds: float) -> Measurement:
    """THREADS read the clock at the same time for so many seconds, each as fast as it can."""

    def perform(caller: Caller) -> Outcome:
        line = caller.line(
            "scale", f"--threads={threads}", f"--path={path}", f"--duration={round(seconds * NS)}"
        )
        results = read_threads(line["threads"])
        each = rates(results)
        return Outcome(
            seconds=seconds_per_call(results) * CALLS_PER_SAMPLE,
            problem=None,
            moved=_moved(results),
            detail={
                "path": path,
                "vdso": line["vdso"],
                "calls_per_second": sum(each),
                "fairness": fairness(each),
                "slowest_share": slowest_share(each),
                "threads": [asdict(result) for result in results],
            },
            cells={
                "us/call": seconds_per_call(results) * 1e6,
                "us CPU/call": _cpu_per_call(results) * 1e6,
                "calls/s": sum(each),
                "fairness": fairness(each),
                "slowest/fastest": slowest_share(each),
            },
        )

    return Measurement(f"{SCALE}/{path}/{_threads(threads)}", SCALE, perform)


def order(path: str, threads: int, calls: int) -> Measurement:
    """So many calls on all CPUs, none of which may return less than one that had returned before it began."""

    def perform(caller: Caller) -> Outcome:
        line = caller.line("order", f"--threads={threads}", f"--path={path}", f"--calls={calls}")
        results = read_threads(line["threads"])
        violations, worst_s = line["violations"], line["worst_ns"] / NS
        return Outcome(
            seconds=seconds_per_call(results) * CALLS_PER_SAMPLE,
            problem=f"{violations} of {calls} calls returned less than one that had returned before they"
            f" began, the worst by {worst_s:.3g} s"
            if violations
            else None,
            moved=_moved(results),
            detail={
                "path": path,
                "vdso": line["vdso"],
                "calls": line["calls"],
                "crossed": line["crossed"],
                "violations": violations,
                "worst_s": worst_s,
                "threads": [asdict(result) for result in results],
            },
            cells={
                "calls": float(calls),
                "violations": float(violations),
                "after another CPU's": float(line["crossed"]),
                "us/call": seconds_per_call(results) * 1e6,
            },
        )

    return Measurement(f"{ORDER}/{path}/{_threads(threads)}", ORDER, perform)


@dataclass(frozen=True)
class Watching:
    """How drift is watched: against what (raw, or a device), for how long, and which rate is wrong."""

    reference: str
    seconds: float
    interval_s: float
    max_ppm: float

    @property
    def name(self) -> str:
        """The reference as operations are named after it: raw, rtc0, ptp0."""
        return self.reference.rsplit("/", 1)[-1]


def drift(watching: Watching) -> Measurement:
    """Hold the system clock against the reference from every CPU, and the CPUs' clocks against each other."""
    return Measurement(f"{DRIFT}/{watching.name}", DRIFT, lambda caller: _watch(caller, watching, None))


def pstates(
    fs: Sysfs, watching: Watching, policies: tuple[cpufreq.Policy, ...], frequencies: tuple[int, ...]
) -> Measurement:
    """Do the same with the CPUs held at these frequencies (kHz), one per policy."""

    def perform(caller: Caller) -> Outcome:
        return _watch(caller, watching, lambda: cpufreq.read_frequencies(fs, policies))

    name = f"pstates/{watching.name}/{frequencies[0]}-kHz"
    return Measurement(name, DRIFT, perform, cpufreq.plan(policies, frequencies), cpufreq.purpose(policies))


def _watch(caller: Caller, watching: Watching, frequencies: Callable[[], dict[str, int]] | None) -> Outcome:
    before = read_offsets(caller.lines("offset"))
    lines = caller.lines(
        "drift",
        f"--reference={watching.reference}",
        f"--duration={round(watching.seconds * NS)}",
        f"--interval={round(watching.interval_s * NS)}",
    )
    ran_at = frequencies() if frequencies is not None else None
    after = read_offsets(caller.lines("offset"))
    found = {cpu: departure(samples, watching.max_ppm) for cpu, samples in read_samples(lines).items()}
    most_ppm = max(one.most_ppm for one in found.values())
    return Outcome(
        seconds=most_ppm * 1e-6 * SECONDS_PER_DAY,
        problem="; ".join(_problems(watching, found, (*before, *after))) or None,
        moved=frozenset(),
        detail={
            "reference": watching.reference,
            "frequencies_khz": ran_at,
            "cpus": [_cpu_detail(cpu, one) for cpu, one in found.items()],
            "offsets": [
                {"when": when, **asdict(one)}
                for when, offsets in (("before", before), ("after", after))
                for one in offsets
            ],
        },
        cells={
            "worst ppm": max((one.rate_ppm for one in found.values()), key=abs),
            "known to": max(one.uncertainty_ppm for one in found.values()),
            "jumps": float(sum(one.jumps for one in found.values())),
            "CPU offset at most (us)": max(
                (max(abs(one.low_s), abs(one.high_s)) * 1e6 for one in (*before, *after)), default=0.0
            ),
            "samples": float(sum(one.samples for one in found.values())),
        },
    )


def _problems(watching: Watching, found: Mapping[int, Departure], offsets: Sequence[Offset]) -> list[str]:
    problems = [one.problem for one in offsets if one.problem]
    fast = {cpu: one for cpu, one in found.items() if one.surely_ppm > watching.max_ppm}
    if fast:
        worst = max(fast.values(), key=lambda one: one.surely_ppm)
        problems.append(
            f"on {describe_cpus(frozenset(fast))} the system clock departs from {watching.name} by"
            f" {worst.rate_ppm:.3f} ppm (known to {worst.uncertainty_ppm:.3f}), more than"
            f" {watching.max_ppm:g}"
        )
    jumped = {cpu: one for cpu, one in found.items() if one.jumps}
    if jumped:
        worst_s = max(one.worst_jump_s for one in jumped.values())
        problems.append(
            f"{sum(one.jumps for one in jumped.values())} jumps against {watching.name} on"
            f" {describe_cpus(frozenset(jumped))}, the largest of at least {worst_s:.3g} s"
        )
    more = len(problems) - MAX_NAMED
    return [*problems[:MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]


def _cpu_detail(cpu: int, one: Departure) -> dict[str, object]:
    return {"cpu": cpu, **asdict(one)}


def _moved(results: Sequence[ThreadResult]) -> frozenset[int]:
    return frozenset(result.cpu for result in results if result.moved)


def _cpu_per_call(results: Sequence[ThreadResult]) -> float:
    return sum(result.cpu_seconds for result in results) / sum(result.calls for result in results)


def _threads(number: int) -> str:
    return f"{number}-thread{'s' if number > 1 else ''}"
