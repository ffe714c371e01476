#!/usr/bin/env python3
"""Put the kept runs into docs/kernel-validation.md, or take one more into docs/data.

Those of test_speed are in docs/data/speed, and beside them their timings as hotplug-timer predict reads
them, a CSV per base and architecture. Those of test_clock_costs are in docs/data/clocks, those of
test_clock_early in docs/data/early, those of test_latencies in docs/data/latencies.
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
KEPT = ROOT / "docs/data/speed"
PAGE = ROOT / "docs/kernel-validation.md"
BEGIN = "<!-- figures of docs/data/speed; written by tests/validation/figures.py -->\n"
CLOCKS = ROOT / "docs/data/clocks"
CLOCKS_BEGIN = "<!-- figures of docs/data/clocks; written by tests/validation/figures.py -->\n"
EARLY = ROOT / "docs/data/early"
EARLY_BEGIN = "<!-- figures of docs/data/early; written by tests/validation/figures.py -->\n"
LATENCIES = ROOT / "docs/data/latencies"
LATENCIES_BEGIN = "<!-- figures of docs/data/latencies; written by tests/validation/figures.py -->\n"
END = "<!-- end of figures -->\n"


def page_with(text: str, table: str, begin: str = BEGIN) -> str:
    """The page with the table between its marks, the first of which is `begin`."""
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(END)
    if not tail and END not in rest:
        raise ValueError(f"{PAGE.name} has no marks for the figures")
    return f"{head}{begin}\n{table}\n{END}{tail}"


def fresh() -> str:
    """The page as it should be."""
    runs: dict[str, list[gains.Run]] = {}
    for path in sorted(KEPT.glob("*.json")):
        runs.setdefault(base_of(path), []).append(gains.load(path))
    tables = [f"**Base {base}**\n\n{gains.table(kept)}" for base, kept in runs.items()]
    page = page_with(PAGE.read_text("utf-8"), "\n".join(tables))
    clocks = [clockcosts.load(path) for path in sorted(CLOCKS.glob("*.json"))]
    page = page_with(page, clockcosts.table(clocks), CLOCKS_BEGIN)
    early = [earlysleeps.load(path) for path in sorted(EARLY.glob("*.json"))]
    page = page_with(page, earlysleeps.table(early), EARLY_BEGIN)
    programs = [latencies.load(path) for path in sorted(LATENCIES.glob("*.json"))]
    return page_with(page, latencies.table(programs), LATENCIES_BEGIN)


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
    for path in sorted(KEPT.glob("*.json")):
        run = gains.load(path)
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
        PAGE.write_text(fresh(), "utf-8")
        for path, text in exports().items():
            path.write_text(text, "utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"figures: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
