#!/usr/bin/env python3
"""Put the kept runs of test_speed into docs/kernel-validation.md, or take one more into docs/data/speed.

Beside them it writes their timings as hotplug-timer predict reads them, a CSV per base and architecture.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import gains
import timings

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs/data/speed"
PAGE = ROOT / "docs/kernel-validation.md"
BEGIN = "<!-- figures of docs/data/speed; written by tests/validation/figures.py -->\n"
END = "<!-- end of figures -->\n"


def page_with(text: str, table: str) -> str:
    """The page with the table between its marks."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if not tail and END not in rest:
        raise ValueError(f"{PAGE.name} has no marks for the figures")
    return f"{head}{BEGIN}\n{table}\n{END}{tail}"


def fresh() -> str:
    """The page as it should be."""
    runs: dict[str, list[gains.Run]] = {}
    for path in sorted(KEPT.glob("*.json")):
        runs.setdefault(base_of(path), []).append(gains.load(path))
    tables = [f"**Base {base}**\n\n{gains.table(kept)}" for base, kept in runs.items()]
    return page_with(PAGE.read_text("utf-8"), "\n".join(tables))


def base_of(path: Path) -> str:
    """The base that a kept run is of: the first word of its name."""
    return path.name.partition("-")[0]


def place(run: gains.Run) -> str:
    """What file names say of how the guests were run: runs of different ways are not compared."""
    return "".join(f"-{word.replace(' ', '-')}" for word in run.place)


def keep(run: Path, base: str) -> Path:
    """Take a run's speed.json into the kept ones, in place of what they have of the same."""
    loaded = gains.load(run)
    KEPT.mkdir(parents=True, exist_ok=True)
    target = KEPT / f"{base}-{loaded.arch}-{loaded.cpus}{place(loaded)}.json"
    if target.exists():
        loaded = gains.with_earlier(loaded, gains.load(target))
    gains.save(loaded, target)
    return target


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
    parser.add_argument("run", nargs="?", type=Path, help="speed.json of a run of test_speed, to be kept")
    parser.add_argument("--base", default="6.12", help="the base it is of (6.12)")
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
