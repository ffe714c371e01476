#!/usr/bin/env python3
"""Take a run into docs/data, and write the timings of all kept runs there.

Runs of test_speed go to docs/data/speed, with a CSV per kernel line and architecture that hotplug-timer
predict reads. Runs of test_clock_costs go to docs/data/clocks, those of test_clock_early to docs/data/early,
those of test_latencies to docs/data/latencies. `make docs` makes the pages of docs/evidence from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import clockcosts
import earlysleeps
import gains
import keeping
import latencies
import timings

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/data"
KEPT = DATA / "speed"
CLOCKS = DATA / "clocks"
EARLY = DATA / "early"
LATENCIES = DATA / "latencies"


def speed_runs() -> dict[Path, gains.Run]:
    """The kept runs of test_speed, by their files."""
    return {path: gains.load(path) for path in sorted(KEPT.glob("*.json"))}


def clock_runs() -> dict[Path, clockcosts.Run]:
    """The kept runs of test_clock_costs, by their files."""
    return {path: clockcosts.load(path) for path in sorted(CLOCKS.glob("*.json"))}


def early_runs() -> dict[Path, earlysleeps.Run]:
    """The kept runs of test_clock_early, by their files."""
    return {path: earlysleeps.load(path) for path in sorted(EARLY.glob("*.json"))}


def latency_runs() -> dict[Path, latencies.Run]:
    """The kept runs of test_latencies, by their files."""
    return {path: latencies.load(path) for path in sorted(LATENCIES.glob("*.json"))}


def base_of(path: Path) -> str:
    """The base that a kept run is of: the first word of its name."""
    return path.name.partition("-")[0]


def place(run: gains.Run) -> str:
    """What file names say of how the guests were run: runs of different ways are not compared."""
    return "".join(f"-{word.replace(' ', '-')}" for word in run.place)


def keep(run: Path, base: str) -> Path:
    """Take a run into the kept ones, in place of what they have of the same."""
    facts = json.loads(run.read_text("utf-8"))
    if "sleeps" in facts:
        return keep_early(run)
    if "latencies" in facts:
        return keep_latencies(run)
    return keep_clocks(run) if "costs" in facts else keep_speed(run, base)


def keep_clocks(run: Path) -> Path:
    """The same of a clocks.json."""
    loaded = clockcosts.load(run)
    return keeping.save(loaded, CLOCKS / f"{loaded.base}-{loaded.vcpus}-on-{loaded.host_cpus}.json")


def keep_early(run: Path) -> Path:
    """The same of an early.json."""
    loaded = earlysleeps.load(run)
    return keeping.save(loaded, EARLY / f"{loaded.base}-{loaded.arch}-{loaded.device}.json")


def keep_latencies(run: Path) -> Path:
    """The same of a latencies.json."""
    loaded = latencies.load(run)
    return keeping.save(loaded, LATENCIES / f"{loaded.base}-{loaded.arch}-{loaded.cpus}.json")


def keep_speed(run: Path, base: str) -> Path:
    """The same of a speed.json."""
    loaded = gains.load(run)
    target = KEPT / f"{base}-{loaded.arch}-{loaded.cpus}{place(loaded)}.json"
    if target.exists():
        loaded = gains.with_earlier(loaded, gains.load(target))
    return keeping.save(loaded, target)


def exports() -> dict[Path, str]:
    """The timings of all kept runs, by the file they belong in."""
    runs: dict[Path, list[gains.Run]] = {}
    for path, run in speed_runs().items():
        runs.setdefault(KEPT / f"{base_of(path)}-{run.arch}{place(run)}.csv", []).append(run)
    return {path: timings.table(kept) for path, kept in runs.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Keep, then write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        help="speed.json, clocks.json, early.json or latencies.json of a run, to be kept",
    )
    parser.add_argument("--base", default="6.12", help="the base that a speed.json is of (6.12)")
    options = parser.parse_args(argv)
    try:
        if options.run:
            keep(options.run, options.base)
        for path, text in exports().items():
            path.write_text(text, "utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"figures: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
