"""What threads did that read the clock at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotplug_host.clocks.probe import Line

NSEC_PER_SEC = 1e9


@dataclass(frozen=True)
class ThreadResult:
    """One thread: its calls, the seconds from its first to its last, and those it had the CPU for."""

    cpu: int
    calls: int
    seconds: float
    cpu_seconds: float
    moved: bool


def read_threads(lines: Sequence[Line]) -> tuple[ThreadResult, ...]:
    """Read what the probe says of each thread."""
    return tuple(
        ThreadResult(
            cpu=line["cpu"],
            calls=line["calls"],
            seconds=line["elapsed_ns"] / NSEC_PER_SEC,
            cpu_seconds=line["cpu_ns"] / NSEC_PER_SEC,
            moved=line["moved"],
        )
        for line in lines
    )


def seconds_per_call(threads: Sequence[ThreadResult]) -> float:
    """Return how long a call takes a thread, over all calls of all threads."""
    return sum(thread.seconds for thread in threads) / sum(thread.calls for thread in threads)


def rates(threads: Sequence[ThreadResult]) -> tuple[float, ...]:
    """Return each thread's calls per second of the whole measurement; one that began late has fewer."""
    whole = max(thread.seconds for thread in threads)
    return tuple(thread.calls / whole for thread in threads)


def fairness(values: Sequence[float]) -> float:
    """Return Jain's index: 1 when all values are equal, 1/n when one has all."""
    # Divided by the largest first: squares of enormous or tiny rates would leave the range of floats.
    largest = max(values)
    if largest <= 0:
        return 1.0
    shares = [value / largest for value in values]
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def slowest_share(values: Sequence[float]) -> float:
    """Return the slowest thread's rate as a share of the fastest's."""
    return min(values) / max(values) if max(values) > 0 else 1.0
