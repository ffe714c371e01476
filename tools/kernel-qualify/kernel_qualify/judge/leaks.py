"""What SMT switches leave behind: what the kernel holds before, in between and after them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from kernel_qualify.judge import verdicts
from kernel_qualify.judge.verdicts import Record

LEAST = {"slab ": 0.5, "kB ": 0.5}
"""Objects and kB for each round (off and on) that are a leak, by the beginning of their names."""
SLABS = 2
"""Slabs that a cache may get in a part of the switches: a CPU takes a whole one for its next objects."""


def growths(inventories: Sequence[Record], slabs: Mapping[str, int]) -> list[str]:
    """Name what comes and goes by itself, a little, but grew in every part by what a leak would be.

    SLABS has the objects of a slab, by name.
    """
    parts = list(pairwise(inventories))
    found = []
    for name in sorted({name for one in inventories for name in one["held"]}):
        grown = [later["held"].get(name, 0) - one["held"].get(name, 0) for one, later in parts]
        each = min(
            grew / (later["rounds"] - one["rounds"]) for grew, (one, later) in zip(grown, parts, strict=True)
        )
        if (least := _least(name)) and each >= least and min(grown) > SLABS * slabs.get(name, 0):
            found.append(f"{name} grows by {each:.2g} for each switch off and on")
    return found


def _least(name: str) -> float | None:
    return next((least for beginning, least in LEAST.items() if name.startswith(beginning)), None)


def changed(inventories: Sequence[Record]) -> Iterator[tuple[str, int, int]]:
    """Give what is not as it was before the first switch: name, before, after."""
    before, after = (inventories[at]["held"] for at in (0, -1))
    for name in sorted({*before, *after}):
        if before.get(name, 0) != after.get(name, 0):
            yield name, before.get(name, 0), after.get(name, 0)


def problems(records: Sequence[Record]) -> list[str]:
    """Name what leaks, and a planted leak that was not seen."""
    inventories = verdicts.of_kind(records, "inventory")
    planted = verdicts.of_kind(records, "planted")
    if len(inventories) < 3 or not planted:
        return ["the script did not reach its end"]
    found = [
        f"{name}: {before} before the switches, {after} after them"
        for name, before, after in changed(inventories)
        if _least(name) is None
    ]
    facts = verdicts.the(records, "machine")
    found += growths(inventories, facts["slabs"])
    last = inventories[-1]
    if not growths([last, _later(planted[0], last)], facts["slabs"]):
        found.append("a file that is left open for each CPU that went off was not noticed")
    return found + verdicts.completed(records, facts)


def _later(planted: Record, last: Record) -> Record:
    return {**planted, "rounds": last["rounds"] + planted["rounds"]}


def report(records: Sequence[Record]) -> list[str]:
    """Return what changed, in lines."""
    inventories = verdicts.of_kind(records, "inventory")
    first, last = inventories[0], inventories[-1]
    lines = [
        f"{2 * (last['rounds'] - first['rounds'])} switches; {len(last['held'])} counts before and after"
    ]
    return lines + [f"  {name}: {before} to {after}" for name, before, after in changed(inventories)]
