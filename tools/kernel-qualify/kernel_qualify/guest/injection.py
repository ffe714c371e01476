"""Fail every hotplug state that can fail, in chosen places of a chunk, and report what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_qualify.guest import machine
from kernel_qualify.guest.cpusets import Cpuset
from kernel_qualify.guest.machine import CHUNK, CPUS, KernelLog, Rendezvous, read, record, say, switch, write

OPPOSITE = {"off": "on", "on": "off"}


@dataclass(frozen=True)
class Place:
    """Where in the second chunk the CPU is that gets the fault."""

    position: str
    cpu: int


def cpusets_of(
    present: Sequence[int], victims: Sequence[int], places: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the CPUs of a partition that keeps one whatever happens, and of a cpuset that loses all of its.

    The partition has the last CPU that stays online with SMT off, and up to two CPUs after it. The cpuset has
    the first two of PLACES, and the last victim elsewhere: with a CPU of both the partition is invalid.
    """
    stays = max(set(present) - set(victims))
    partition = [cpu for cpu in present if stays <= cpu < stays + 3]
    member = places[:2]
    return partition, sorted([*member, max(set(victims) - set(partition) - set(member))])


class Bench:
    """The guest with cpusets, counters and the places to inject at."""

    def __init__(self, chunk: int) -> None:
        machine.all_on()
        write(CHUNK, chunk)
        self.counter = Rendezvous()
        self.log = KernelLog()
        self.victims = machine.secondaries()
        second = self.victims[chunk : 2 * chunk]
        self.places = [
            Place("first", second[0]),
            Place("middle", second[len(second) // 2]),
            Place("last", second[-1]),
        ]
        partition, member = cpusets_of(machine.present(), self.victims, [place.cpu for place in self.places])
        self.cpusets = {
            "partition": Cpuset("partition", partition, "root"),
            "member": Cpuset("member", member),
        }
        record(
            "machine",
            **machine.settings(),
            present=machine.present(),
            victims=self.victims,
            chunk=chunk,
            cpusets={name: made.cpus for name, made in self.cpusets.items()},
        )

    def look(self) -> dict[str, Any]:
        """Everything that the specification says something about."""
        return {
            "online": machine.online(),
            "domains": machine.domains(),
            "cpusets": {
                name: {"effective": made.effective(), "state": made.state()}
                for name, made in self.cpusets.items()
            },
        }

    def reach(self, value: str) -> bool:
        """Have SMT on or off completely."""
        wanted = (
            machine.present() if value == "on" else [c for c in machine.present() if c not in self.victims]
        )
        if machine.online() != wanted:
            switch(OPPOSITE[value])
            switch(value)
        return machine.online() == wanted

    def inject(self, direction: str, state: int, name: str, place: Place) -> bool:
        """One fault, and the switches after it; return whether the state can fail in this direction."""
        if not self.reach(OPPOSITE[direction]):
            record("stuck", direction=direction, online=machine.online())
        fail = CPUS / f"cpu{place.cpu}/hotplug/fail"
        refused = write(fail, state)
        if refused:
            return False
        self.log.lines()
        result = switch(direction, self.counter)
        fired = read(fail) == "-1"
        facts = {**result, **self.look(), "log": self.log.lines(), "control": read(machine.CONTROL)}
        write(fail, -1)
        if fired:
            facts["after"] = self.after(direction, whole=place.position == "last")
        identity = {"direction": direction, "state": state, "name": name}
        record("fault", **identity, position=place.position, cpu=place.cpu, fired=fired, **facts)
        return fired

    def after(self, direction: str, whole: bool) -> list[dict[str, Any]]:
        """Return the next switch, and both directions once in full."""
        order = [OPPOSITE[direction]]
        if whole:
            order += [direction, OPPOSITE[direction]]
        return [{**switch(value, self.counter), **self.look()} for value in order]


def states() -> list[tuple[int, str]]:
    """Every hotplug state: number and name."""
    pairs = (line.split(":", 1) for line in read(CPUS / "hotplug/states").splitlines())
    return [(int(number), name.strip()) for number, name in pairs]


def main() -> None:
    """Go through directions, states and places."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunk", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="take only every Nth state")
    parser.add_argument("--always", action="append", default=[], help="name of a state to take in any case")
    options = parser.parse_args()
    bench = Bench(options.chunk)
    for value in ("off", "on"):
        record("baseline", **{**switch(value, bench.counter), **bench.look()})
    for direction in ("off", "on"):
        for number, (state, name) in enumerate(states()):
            if number % options.every and name not in options.always:
                continue
            say(f"{direction}: {state} {name}")
            for place in bench.places:
                if not bench.inject(direction, state, name, place):
                    break
    bench.reach("on")
    record("end", **bench.look())


if __name__ == "__main__":
    main()
