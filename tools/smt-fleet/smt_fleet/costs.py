"""How long a host's switches take by its costs, which `hotplug-timer measure-costs` measured. Pure.

`hotplug-timer predict` turns the costs into seconds of one switch; here these become the minutes of a host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hotplug_common.tables import significant
from hotplug_host.cpulist import parse_cpulist
from hotplug_host.operations import OFF, ON, SMT, kind_of, name_of
from hotplug_host.preflight.judge import WARNINGS, Reason

SWITCHES = tuple(name_of(SMT, direction) for direction in (OFF, ON))
#: Minutes from leaving a kernel to timing the next one, on a large LPAR.
BOOT_MIN = 15
#: Minutes of a host beside its switch: connections, preflight, the program's way there.
BESIDE_MIN = 2
#: The patch with which a kernel switches CPUs in chunks, as artifact.json names it.
CHUNKS_PATCH = "cpu-SMT-Take-CPUs-down-and-up-in-chunks"


class Kernel(StrEnum):
    """Kinds of kernels that `predict` tells apart."""

    STOCK = "stock"
    EXPEDITED = "expedited"
    """The same with grace periods expedited, as apply.yml does."""
    PATCHED = "patched"


@dataclass(frozen=True)
class Range:
    """Seconds, from the least to the most."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{significant(self.low, 2)} to {significant(self.high, 2)} s"


@dataclass(frozen=True)
class Costs:
    """What `predict` says of a file: the kernel and the CPUs it is of, and seconds by switch and kernel."""

    file: str
    kernel: str
    cpus: int
    emulated: bool
    seconds: Mapping[tuple[str, Kernel], Range]

    def __str__(self) -> str:
        return f"{self.file}: {self.kernel}, {self.cpus} CPUs{', emulated' if self.emulated else ''}"


@dataclass(frozen=True)
class Seen:
    """What a host was when a run looked at it: WHEN is that run, empty for this one."""

    release: str
    online: int
    present: int
    chunk: int | None = None
    """How many CPUs the patched kernel switches at once; None on another kernel."""
    when: str = ""


@dataclass(frozen=True)
class Job:
    """What a run does on each host.

    `kernels` are those that are booted, each `boots` times. An iteration is all `operations` once;
    `iterations` are those of one boot, `counted` those that its first boot has beside them.
    """

    action: str
    level: str = ""
    kernels: tuple[Kernel, ...] = ()
    boots: int = 1
    iterations: int = 0
    counted: int = 0
    operations: tuple[str, ...] = SWITCHES


@dataclass(frozen=True)
class Switch:
    """A switch that a run does on a host so many times."""

    operation: str
    kernel: Kernel
    times: int = 1


@dataclass(frozen=True)
class Work:
    """All switches of a run on a host, and the minutes that it takes there beside them."""

    switches: Sequence[Switch]
    minutes: int


@dataclass(frozen=True)
class Predicted:
    """A switch with the seconds that it is predicted to take."""

    switch: Switch
    seconds: Range

    def __str__(self) -> str:
        times = f"{self.switch.times} x " if self.switch.times > 1 else ""
        return f"{times}{self.switch.operation} ({self.switch.kernel}) {self.seconds}"


@dataclass(frozen=True)
class Forecast:
    """What is known of a host beforehand. Without a prediction, `minutes` are None and `problem` tells why.

    A problem without a level is no fault: the host has no costs.
    """

    host: str
    costs: Costs | None = None
    switches: Sequence[Predicted] = ()
    minutes: int | None = None
    seen: Seen | None = None
    problem: Reason | None = None

    def __str__(self) -> str:
        if self.problem:
            return f"{self.host}: no prediction: {self.problem}"
        return f"{self.host}: {self.words}, by {self.costs}"

    @property
    def words(self) -> str:
        """The switches and their seconds."""
        return ", ".join(map(str, self.switches)) or "no switch"

    def too_long(self, timeout: float) -> Iterator[Reason]:
        """Yield what may exceed the TIMEOUT of a switch, in seconds."""
        for one in self.switches:
            if one.seconds.high > timeout:
                yield Reason(
                    WARNINGS,
                    f"{one.switch.operation} ({one.switch.kernel}) is predicted to take {one.seconds}, and"
                    f" ab_switch_timeout ends it after {timeout:g} s ({self.costs})",
                    "raise ab_switch_timeout",
                )


def seen_in(facts: Mapping[str, Any] | None, when: str = "") -> Seen | None:
    """Return what preflight's facts tell of a host; None where they lack it."""
    if not facts or not facts.get("release"):
        return None
    online, present = (
        len(parse_cpulist(facts.get("cpus", {}).get(key) or "")) for key in ("online", "present")
    )
    return Seen(facts["release"], online, present, facts.get("bulk_chunk"), when)


def costs_in(file: str, answer: Mapping[str, Any]) -> Costs:
    """Return what `predict --format json` says of a file.

    Where firmware may stop CPUs one at a time, a range reaches from the least to the most of both lines.
    """
    seconds: dict[tuple[str, Kernel], Range] = {}
    for row in answer["predictions"]:
        key, found = (row["operation"], Kernel(row["kind"])), Range(row["low_s"], row["high_s"])
        seconds[key] = _hull([found, seconds.get(key, found)])
    return Costs(file, answer["kernel"], answer["cpus"], answer["emulated"], seconds)


def mismatch(costs: Costs, seen: Seen) -> Reason | None:
    """Return why a file is not of what a host is; None where it is.

    Costs are never those of a patched kernel: what they tell of one is taken wherever it runs.
    """
    then = f" in {seen.when}" if seen.when else ""
    again = "measure the host's costs again"
    if seen.when:
        again = f"{again}, or if that is past, smt-fleet check"
    if seen.chunk is None and costs.kernel != seen.release:
        text = f"{costs.file} has the costs of kernel {costs.kernel}, and the host runs {seen.release}{then}"
        return Reason(WARNINGS, text, again)
    if costs.cpus not in (seen.online, seen.present):
        text = (
            f"{costs.file} has the costs of {costs.cpus} CPUs, and the host has {seen.online} of"
            f" {seen.present} online{then}"
        )
        return Reason(WARNINGS, text, again)
    return None


def work_of(job: Job, seen: Seen | None) -> Work:
    """Return what a run does on a host. What is not known of it is taken for what takes longer."""
    runs = Kernel.PATCHED if seen and seen.chunk else Kernel.STOCK
    if job.action == "apply":
        kernel = Kernel.EXPEDITED if runs is Kernel.STOCK else runs
        return Work([Switch(name_of(SMT, job.level), kernel)], BESIDE_MIN)
    if job.action == "deploy":
        # On before the kernel is left, and back to what it was on the next; neither where all are online.
        away = [] if seen and seen.online == seen.present else [Switch(name_of(SMT, ON), runs)]
        back = [Switch(name_of(SMT, OFF), job.kernels[0])] if away else []
        return Work([*away, *back], BESIDE_MIN + BOOT_MIN)
    if job.action in ("ab", "regress"):
        each = job.boots * job.iterations + job.counted
        times = {kind: each * job.kernels.count(kind) for kind in Kernel}
        switches = [
            Switch(operation, kind, number)
            for kind, number in times.items()
            for operation in job.operations
            if number
        ]
        # And the boot back, from a host that left its own kernel.
        boots = len(job.kernels) * job.boots
        return Work(switches, BESIDE_MIN + (boots + bool(boots)) * BOOT_MIN)
    return Work([Switch(operation, runs) for operation in SWITCHES], 0)


def forecast(host: str, costs: Costs, job: Job, seen: Seen | None) -> Forecast:
    """Return what a run takes on a host by its costs, unless they are not of what it is."""
    if seen and (wrong := mismatch(costs, seen)):
        return Forecast(host, seen=seen, problem=wrong)
    work = work_of(job, seen)
    switches: list[Predicted] = []
    for switch in work.switches:
        ways = _ways(switch.operation)
        if not ways:
            wrong = Reason(WARNINGS, f"costs predict nothing of {switch.operation}", "give --minutes")
            return Forecast(host, seen=seen, problem=wrong)
        switches.append(Predicted(switch, _hull([costs.seconds[way, switch.kernel] for way in ways])))
    seconds = sum(one.switch.times * one.seconds.high for one in switches)
    return Forecast(host, costs, switches, math.ceil(work.minutes + seconds / 60), seen)


def _ways(operation: str) -> tuple[str, ...]:
    """Return the whole switches that a switch takes no longer than: both, for a number of threads."""
    name = operation.partition("@")[0]
    if kind_of(name) != SMT:
        return ()
    off, on = SWITCHES
    return {off: (off,), on: (on,), name_of(SMT, "1"): (off,)}.get(name, SWITCHES)


def _hull(ranges: Sequence[Range]) -> Range:
    return Range(min(one.low for one in ranges), max(one.high for one in ranges))
