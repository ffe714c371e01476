#!/usr/bin/env python3
"""Histories made up for tests, and the one of docs/guides/operators/history.md: noise, and a step in it.

Run it with a folder to write that one there: .venv/bin/python tests/samples/histories.py DIR
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hotplug_host import clock
from hotplug_timer.history.entry import Conditions, Entry, Result, failure, to_line
from hotplug_timer.history.store import RUNS

FIRST = datetime(2026, 8, 1, 2, tzinfo=UTC)
DAYS = 90
CONDITIONS = Conditions("ppc64le", 16, 8, True, "kexec", "ppc64_cpu", False, None)
#: Standard deviation of the logarithm of one run's median: assumed; the guide has that of real runs.
NOISE = 0.015
Noise = Callable[[random.Random, int, float], list[float]]


def independent(rng: random.Random, nights: int, sd: float = NOISE) -> list[float]:
    return [rng.gauss(0, sd) for _ in range(nights)]


def with_bad_nights(rng: random.Random, nights: int, sd: float = NOISE) -> list[float]:
    """One night of 25 something else ran on the machine."""
    return [
        one + (rng.expovariate(1 / 0.15) if rng.random() < 0.04 else 0)
        for one in independent(rng, nights, sd)
    ]


def with_long_tails(rng: random.Random, nights: int, sd: float = NOISE) -> list[float]:
    """Student's t of 3 degrees of freedom."""
    return [sd / 1.3 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3) for _ in range(nights)]


def resembling(rng: random.Random, nights: int, sd: float = NOISE) -> list[float]:
    """Each night has three tenths of the one before, and all of them together the standard deviation."""
    found = [rng.gauss(0, sd)]
    for one in independent(rng, nights - 1, sd * math.sqrt(1 - 0.3**2)):
        found.append(one + 0.3 * found[-1])
    return found


NOISES: dict[str, Noise] = {
    "independent": independent,
    "bad nights": with_bad_nights,
    "long tails": with_long_tails,
    "resembling": resembling,
}


def nights(
    seed: int,
    noise: Noise,
    *,
    count: int = DAYS,
    level: float = 0.3,
    step_at: int | None = None,
    step: float = 1.05,
    sd: float = NOISE,
) -> list[float]:
    """Return a median for each night, in seconds; from STEP_AT on they are STEP times as long."""
    odd = noise(random.Random(seed), count, sd)  # noqa: S311 - nothing secret
    return [
        level * math.exp(one) * (step if step_at is not None and at >= step_at else 1)
        for at, one in enumerate(odd)
    ]


def started(night: int) -> str:
    return clock.text(FIRST + timedelta(days=night))


def entry(
    night: int,
    seconds: float,
    *,
    variant: str = "patched",
    operation: str = "smt=off",
    conditions: Conditions = CONDITIONS,
    failed: str | None = None,
    host: str = "madeup1",
) -> Entry:
    return Entry(
        run_id=f"{variant}-{night:03d}",
        started=started(night),
        host=host,
        variant=variant,
        kernel=f"6.12.{100 + night // 7}-{variant}",
        conditions=conditions,
        results=(Result(operation, round(seconds, 4), 10, {}, 4.0),),
        failed=failed,
        boot=f"boot {night}",
    )


def history(seconds: Sequence[float], **more: object) -> list[Entry]:
    return [entry(night, one, **more) for night, one in enumerate(seconds)]  # type: ignore[arg-type]


def example() -> list[Entry]:
    """Return the history that the documentation shows: a step of 5% in one of two series, two failures."""
    patched = history(nights(54, with_bad_nights, step_at=77))
    stock = history(nights(5, with_bad_nights, level=2.9), variant="stock")
    patched[60] = entry(60, 0.3, failed="smt=off: CPU 5 online but should be offline")
    stock[40] = failure("madeup1", "stock", started(40), "no SSH after the reboot")
    return [run for pair in zip(stock, patched, strict=True) for run in pair]


def write(directory: Path, entries: Sequence[Entry], tail: str = "", *, append: bool = False) -> Path:
    """Write a store, or more lines into it; returns its folder."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / RUNS).open("a" if append else "w", encoding="utf-8") as file:
        file.write("".join(map(to_line, entries)) + tail)
    return directory


if __name__ == "__main__":
    write(Path(sys.argv[1]), example())
