"""Which clocksource a host should use, and why: from what it shows and what was measured, nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotplug_host.clocks.facts import INVARIANT, RELIABLE, Facts
from hotplug_host.clocks.kernellog import TSC, UNSTABLE, WARP
from hotplug_host.clocks.measured import Measured

#: Those that a hypervisor keeps right for its guests, in the kernel's own order of liking.
PARAVIRTUAL = ("kvm-clock", "hyperv_clocksource_tsc_page", "hyperv_clocksource_msr", "xen")
#: Tick counters: what the kernel has when it has nothing.
LAST_RESORTS = frozenset(("jiffies", "refined-jiffies"))
#: Words of the command line that take TSC out, and those that end the kernel's watch over it.
_NO_TSC = frozenset(("notsc", "tsc=unstable"))
_UNWATCHED = frozenset(("tsc=reliable", "tsc=nowatchdog"))
_CHOICE = "clocksource="
MACHINES_WITH_TSC = frozenset(("x86_64", "i686", "i386"))


@dataclass(frozen=True)
class Recommendation:
    """The clocksource to use, None where none can be relied on, and why in one line."""

    clocksource: str | None
    reason: str


def recommend(facts: Facts, measured: Sequence[Measured]) -> Recommendation:
    """Return the fastest clocksource that nothing speaks against."""
    available = facts.clocksources.available
    if not available:
        return Recommendation(None, "the kernel does not say which clocksources it has")
    wrong = faults(facts, measured)
    sound = [name for name in available if name not in wrong]
    if not sound:
        found = "; ".join(f"{name}: {wrong[name]}" for name in available)
        return Recommendation(None, f"nothing here can be relied on: {found}")
    name, why = _choose(facts, sound, wrong, _costs(measured))
    return Recommendation(name, "; ".join([why, *_reservations(facts, name)]))


def faults(facts: Facts, measured: Sequence[Measured]) -> Mapping[str, str]:
    """Return what speaks against clocksources, by name: measured, in the kernel's log, or said at boot."""
    found: dict[str, str] = {}
    # The strongest first: what was seen just now.
    for one in measured:
        if one.problem is not None and one.clocksource is not None:
            found.setdefault(one.clocksource, f"{one.operation}: {one.problem}")
    for name in facts.log.unstable:
        found.setdefault(name, _logged(facts, name))
    for word in facts.boot_words:
        if word in _NO_TSC:
            found.setdefault(TSC, f"{word} is on the command line")
    return found


def _logged(facts: Facts, name: str) -> str:
    said = (
        message.text
        for message in facts.log.messages
        if message.clocksource == name and message.kind in (UNSTABLE, WARP)
    )
    return f"the kernel logged '{next(said, 'unstable')}'"


def _choose(
    facts: Facts, sound: Sequence[str], wrong: Mapping[str, str], costs: Mapping[str, float]
) -> tuple[str, str]:
    """Return one of the SOUND clocksources, and why it is that one."""
    if TSC in sound and facts.invariant_tsc:
        promised = f", as its hypervisor ({facts.hypervisor}) promises" if facts.hypervisor else ""
        return TSC, f"TSC is invariant{promised}, and nothing speaks against it"
    if TSC in sound and facts.reliable_tsc:
        return TSC, f"the platform ({facts.hypervisor or 'no hypervisor'}) vouches for TSC ({RELIABLE})"
    if len(facts.clocksources.available) == 1:
        return sound[0], "the only one that this kernel has"
    if facts.host.machine not in MACHINES_WITH_TSC:
        return sound[0], "the kernel's first choice"
    return _instead_of_tsc(sound, _against_tsc(facts, wrong), costs)


def _instead_of_tsc(sound: Sequence[str], against: str, costs: Mapping[str, float]) -> tuple[str, str]:
    """Do the same where AGAINST speaks against TSC, or it is not invariant."""
    for name in PARAVIRTUAL:
        if name in sound:
            return name, f"its hypervisor keeps it right; not tsc: {against}"
    slow = [name for name in sound if name != TSC and name not in LAST_RESORTS]
    if slow:
        measured = all(name in costs for name in slow) and len(slow) > 1
        name = min(slow, key=lambda name: costs[name]) if measured else slow[0]
        least = f", the cheapest one here ({costs[name]:.3g} us a call)" if measured else ""
        return name, f"slow, but the same on all CPUs{least}; not tsc: {against}"
    if TSC in sound:
        return TSC, f"there is nothing better, although it is {against}"
    return sound[0], f"there is nothing better; not tsc: {against}"


def _against_tsc(facts: Facts, wrong: Mapping[str, str]) -> str:
    if TSC in wrong:
        return wrong[TSC]
    if TSC not in facts.clocksources.available:
        return "this kernel does not offer it"
    missing = " and ".join(sorted(INVARIANT - set(facts.tsc_flags)))
    return f"not invariant ({missing} missing), so its rate may change or it may stop"


def _reservations(facts: Facts, name: str) -> list[str]:
    """Say what the choice does not know."""
    found = []
    if name == TSC:
        unwatched = [word for word in facts.boot_words if word in _UNWATCHED]
        if unwatched:
            found.append(f"but it is not watched ({unwatched[0]})")
        if not facts.log.readable:
            found.append("but the kernel's log could not be read")
        elif not facts.log.complete:
            found.append("but the kernel's log no longer reaches back to the boot")
    asked = [word[len(_CHOICE) :] for word in facts.boot_words if word.startswith(_CHOICE)]
    if asked and asked[-1] != name:
        found.append(f"but the command line asks for {asked[-1]}")
    return found


def _costs(measured: Sequence[Measured]) -> dict[str, float]:
    """Return what a call costs with each clocksource (us), with the most threads that were measured."""
    largest: dict[str, tuple[int, float]] = {}
    for one in measured:
        threads = re.fullmatch(r"scale/vdso/(\d+)-threads?", one.operation)
        if threads and one.us_per_call is not None and one.clocksource is not None:
            found = (int(threads[1]), one.us_per_call)
            largest[one.clocksource] = max(largest.get(one.clocksource, found), found)
    return {name: cost for name, (_, cost) in largest.items()}
