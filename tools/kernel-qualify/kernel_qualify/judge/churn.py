"""Cores that come and go while SMT switches go on: each switch works, and each core takes part in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from kernel_qualify.judge import verdicts
from kernel_qualify.judge.verdicts import Record


def problems(records: Sequence[Record], rounds: int) -> list[str]:
    """Name switches that failed or left wrong CPUs online, and cores that did not come, go or switch.

    A core was added and removed `rounds` times.
    """
    facts = verdicts.the(records, "machine")
    base = facts["present"]
    threads = len(facts["cores"][0])
    switches = verdicts.of_kind(records, "switch")
    found = [
        f"switch {number} ({one['to']}): error {one['error']}"
        for number, one in enumerate(switches, start=1)
        if one["error"]
    ]
    # A core on its way may have any of its threads online when they are looked at; the others may not.
    found += [
        f"switch {number} ({one['to']}): {_kept(one, base)} online"
        for number, one in enumerate(switches, start=1)
        if _kept(one, base) != _expected(one["to"], base, threads)
    ]
    stays = [stay for stay in _stays(switches) if stay[0]["present"] != base]
    found += [f"{title} with {stay[0]['present']}" for stay in stays if (title := _idle(stay, threads))]
    changes = _changes([facts, *switches])
    if changes != 2 * rounds:
        found.append(f"the CPUs of the guest changed {changes} times, not {2 * rounds}")
    return found + verdicts.completed(records, facts)


def report(records: Sequence[Record]) -> str:
    """Return how many switches there were, and how long the longest took, in a line."""
    switches = verdicts.of_kind(records, "switch")
    longest = max((one["seconds"] for one in switches), default=0.0)
    changes = _changes([verdicts.the(records, "machine"), *switches])
    return f"{len(switches)} switches, {changes} changes of CPUs; the longest switch took {longest:.1f} s"


def _expected(to: str, present: Sequence[int], threads: int) -> list[int]:
    return [cpu for cpu in present if to == "on" or cpu % threads == 0]


def _kept(switch: Record, base: Sequence[int]) -> list[int]:
    return [cpu for cpu in switch["online"] if cpu in base]


def _stays(switches: Sequence[Record]) -> Iterator[list[Record]]:
    """Give the switches with the same CPUs, which a core that comes or goes ends."""
    for _, stay in groupby(switches, key=lambda one: one["present"]):
        yield list(stay)


def _idle(stay: Sequence[Record], threads: int) -> str:
    """Return in which direction no switch took all CPUs along; "" for none."""
    whole = {one["to"] for one in stay if one["online"] == _expected(one["to"], one["present"], threads)}
    return next((f"no switch {to} took all CPUs along" for to in ("off", "on") if to not in whole), "")


def _changes(records: Sequence[Record]) -> int:
    return sum(1 for _ in groupby(records, key=lambda one: one["present"])) - 1
