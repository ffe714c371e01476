"""Run the harness program and read what it says; medians of several rounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError

SHARED = ("plain", "hpet-upstream", "combined")
"""Ways to read one slow counter that all CPUs share."""
PERCPU = ("retry", "winner", "pvclock-upstream", "pvclock")
"""Ways to keep counters that each CPU has of its own from going backwards."""
GRACE_S = 60.0


@dataclass(frozen=True)
class Counter:
    """A made-up counter: how long a read takes (ns), whether reads queue, and its bits."""

    latency_ns: int
    serial: bool = True
    bits: int = 32


@dataclass(frozen=True)
class Sample:
    """One run of one algorithm.

    `calls` of all threads in `ns` of time and `cpu_ns` of processor time; the last four only of a check.
    """

    algorithm: str
    threads: int
    latency_ns: int
    serial: bool
    calls: int
    ns: int
    cpu_ns: int
    least_calls: int
    most_calls: int
    violations: int = 0
    worst_back_ns: int = 0
    oldest_ns: int = 0
    old_calls: int = 0

    @property
    def us_per_call(self) -> float:
        """How long a call takes the thread that makes it, in us."""
        return self.ns * self.threads / self.calls / 1000 if self.calls else float("inf")

    @property
    def cpu_us_per_call(self) -> float:
        """Processor time of a call, in us, waiting for other threads included."""
        return self.cpu_ns / self.calls / 1000 if self.calls else float("inf")

    @property
    def fairness(self) -> float:
        """Calls of the thread that made the fewest, to those of the one that made the most: 0 to 1."""
        return self.least_calls / self.most_calls if self.most_calls else 0.0


@dataclass
class Cell:
    """The rounds of one algorithm and number of threads."""

    algorithm: str
    threads: int
    samples: list[Sample] = field(default_factory=list)

    @property
    def us_per_call(self) -> float:
        """Median of the rounds."""
        return median(sample.us_per_call for sample in self.samples)

    @property
    def cpu_us_per_call(self) -> float:
        """Median of the rounds."""
        return median(sample.cpu_us_per_call for sample in self.samples)


@dataclass(frozen=True)
class Harness:
    """The program, the CPUs its threads are pinned to in turn, and how long a run lasts."""

    program: Path
    cpus: Sequence[int]
    ms: int

    def measure(self, algorithm: str, threads: int, counter: Counter) -> Sample:
        """Read as fast as possible; raises ToolError (OPERATION) when the program fails."""
        return self._run("measure", algorithm, threads, counter)

    def together(self, algorithm: str, threads: int, counter: Counter) -> Sample:
        """Count only while all threads run; raises ToolError (OPERATION) when the program fails."""
        return self._run("together", algorithm, threads, counter)

    def check(self, algorithm: str, threads: int, counter: Counter) -> Sample:
        """Read and look at each value; raises ToolError (OPERATION) when the program fails."""
        return self._run("check", algorithm, threads, counter)

    def _run(self, mode: str, algorithm: str, threads: int, counter: Counter) -> Sample:
        done = process.run(
            [
                *(self.program, mode, algorithm, str(threads), ",".join(map(str, self.cpus))),
                *(str(counter.latency_ns), "serial" if counter.serial else "parallel"),
                *(str(counter.bits), str(self.ms)),
            ],
            merge_errors=False,
            timeout=self.ms / 1000 + GRACE_S,
        )
        if done.returncode != 0:
            raise ToolError(done.errors.strip() or f"{self.program} failed", code=ExitCode.OPERATION)
        return Sample(**json.loads(done.output))


def rounds(
    run: Callable[[str, int, Counter], Sample],
    algorithms: Sequence[str],
    threads: Iterable[int],
    counter: Counter,
    count: int,
) -> list[Cell]:
    """Have `run` measure every algorithm with every number of threads `count` times.

    The algorithms take turns, each round in the other direction, so that what changes on the machine
    meanwhile meets all of them alike.
    """
    cells = []
    for number in threads:
        row = [Cell(algorithm, number) for algorithm in algorithms]
        for turn in range(count):
            for cell in row if turn % 2 == 0 else reversed(row):
                cell.samples.append(run(cell.algorithm, number, counter))
        cells += row
    return cells


def json_lines(samples: Iterable[Sample]) -> str:
    """Write samples, one a line."""
    return "".join(json.dumps(asdict(sample)) + "\n" for sample in samples)
