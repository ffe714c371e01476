"""Records as a kernel without faults would give them, to be spoilt one at a time."""

import copy
import errno
import signal
from collections.abc import Sequence
from typing import Any

from kernel_qualify.guest.stress import DEADLINE_LOAD, QUEUE_LOAD
from kernel_qualify.judge import smtcontrol, verdicts

Record = dict[str, Any]

PRESENT = list(range(16))
VICTIMS = [cpu for cpu in PRESENT if cpu % 8]
PRIMARIES = [0, 8]
CHUNK = 4
PLACES = {"first": 5, "middle": 7, "last": 9}
CPUSETS = {"partition": [8, 9, 10], "member": [5, 7, 15]}


def domains(online: Sequence[int]) -> dict[str, list[list[int]]]:
    """Cores, and above them everything, inside and outside of the partition."""
    partition = set(CPUSETS["partition"])
    spans = {}
    for cpu in online:
        own = partition if cpu in partition else set(PRESENT) - partition
        core = {c for c in PRESENT if c // 8 == cpu // 8}
        levels = [sorted(level & own & set(online)) for level in (core, set(PRESENT))]
        spans[str(cpu)] = verdicts.distinct(levels)
    return spans


def look(online: Sequence[int]) -> Record:
    """The state of the machine with these CPUs online."""
    partition = [cpu for cpu in CPUSETS["partition"] if cpu in online]
    rest = [cpu for cpu in online if cpu not in partition]
    member = [cpu for cpu in CPUSETS["member"] if cpu in rest] or rest
    return {
        "online": list(online),
        "domains": domains(online),
        "cpusets": {
            "partition": {"effective": partition, "state": "root"},
            "member": {"effective": member, "state": "member"},
        },
    }


def whole(value: str) -> Record:
    """A switch that succeeds."""
    online = PRIMARIES if value == "off" else PRESENT
    return {"to": value, "error": 0, "seconds": 1.0, "rendezvous": 4 if value == "off" else 0, **look(online)}


def fault(direction: str, state: int, name: str, position: str) -> Record:
    """A fault that fires, and the switches after it."""
    cpu = PLACES[position]
    before = VICTIMS[: VICTIMS.index(cpu)]
    off = direction == "off"
    online = [c for c in PRESENT if c not in before] if off else sorted([*PRIMARIES, *before])
    opposite = "on" if off else "off"
    return {
        "kind": "fault",
        **{"direction": direction, "state": state, "name": name, "position": position, "cpu": cpu},
        **{"fired": True, "to": direction, "error": errno.EAGAIN, "rendezvous": 1, **look(online)},
        "log": [f"CPU {cpu} cannot go {direction}line: {name} refused (-11)"],
        "after": [whole(value) for value in (opposite, direction, opposite)],
    }


def injection() -> list[Record]:
    """A whole injection run."""
    machine = {"kind": "machine", "present": PRESENT, "victims": VICTIMS, "chunk": CHUNK, "cpusets": CPUSETS}
    records = [machine, *({"kind": "baseline", **whole(value)} for value in ("off", "on"))]
    for direction, names in verdicts.MUST_FAIL.items():
        for state, name in enumerate(names, start=100):
            records += [fault(direction, state, name, position) for position in PLACES]
        unmoved = fault(direction, 99, "startup/only:state", "first")
        records.append({**unmoved, "fired": False, **whole(direction)})
    return copy.deepcopy([*records, {"kind": "end", **look(PRESENT)}])


def stress(switches: int = 8) -> list[Record]:
    """A whole stress run."""
    threads = {str(cpu): cpu % 8 for cpu in PRESENT}
    writers = [3, 14]
    records: list[Record] = [
        {
            **{"kind": "machine", "realtime": False},
            **{"present": PRESENT, "victims": VICTIMS, "writers": writers, "threads": threads},
        }
    ]
    limits = {"off": 1, "on": 8, "2": 2, "4": 4}
    for number in range(switches):
        to = list(limits)[number % 4]
        online = [cpu for cpu in PRESENT if cpu % 8 < limits[to] and cpu != 14]
        records.append(
            {
                **{"kind": "switch", "phase": "version 2", "number": number, "chunk": 64, "to": to},
                **{"error": 0, "online": online, "log": []},
            }
        )
    for phase in ("before", "version 2", "version 1"):
        quiet = {"kind": "quiet", "phase": phase, "chunk": CHUNK}
        order = {"parked": len(VICTIMS), "strays": [], "lost": 0}
        records += [{**quiet, **whole("off"), **order}, {**quiet, **whole("on")}]
    for _ in range(2):
        done = {"disk": 7, "taskset": 9, QUEUE_LOAD: 5, DEADLINE_LOAD: 1}
        counts = {name: {"longest": 0.5, "ok": times} for name, times in done.items()}
        records.append({"kind": "loads", "started": sorted(done), "counts": counts})
    return copy.deepcopy([*records, {"kind": "end", "online": PRESENT}])


def selftests() -> list[Record]:
    """A whole run of the kernel's script."""
    records: list[Record] = [{"kind": "machine", "present": PRESENT, "victims": VICTIMS}]
    for _ in range(2):
        for options in ([], ["-a"]):
            outcome = {"exit_code": 0, "complaints": [], "online": PRESENT}
            records.append({"kind": "selftest", "options": options, **outcome})
        records += [{"kind": "switch", **whole(value), "rendezvous": 1} for value in ("off", "on")]
    return copy.deepcopy([*records, {"kind": "end", "online": PRESENT}])


def smt_control() -> list[Record]:
    """A whole run of the kernel's test of smt/control."""
    lines = ["TAP version 13", f"1..{len(smtcontrol.CASES)}"]
    lines += [f"ok {number} {name} " for number, name in enumerate(smtcontrol.CASES, start=1)]
    lines.append(f"# Totals: pass:{len(smtcontrol.CASES)} fail:0 xfail:0 xpass:0 skip:0 error:0")
    records: list[Record] = [{"kind": "machine", "present": PRESENT, "victims": VICTIMS}]
    for signum, exit_code, heard, online, control in (
        (0, 0, lines, PRESENT, "on"),
        (signal.SIGTERM, 143, lines[:4], PRIMARIES, "off"),
        (signal.SIGINT, 130, lines[:-4], PRESENT[:-1], "on"),
    ):
        state = {"online": online, "control": control}
        run = {"signal": int(signum), "exit_code": exit_code, "lines": heard}
        records.append({"kind": "smt-control", **run, "before": state, "after": state})
    return copy.deepcopy([*records, {"kind": "end", "online": PRESENT}])
