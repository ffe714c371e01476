"""What the records of the guest's scripts have to be. Pure functions, so that each can be shown to fail.

A verdict is a list of problems, empty when all is well.
"""

import base64
import errno
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from kernel_qualify.guest.machine import FILE
from kernel_qualify.guest.stress import DEADLINE_LOAD, QUEUE_LOAD

Record = dict[str, Any]
REFUSED = re.compile(
    r"CPU (?P<cpu>\d+) cannot go (?P<where>online|offline): (?P<state>.+) refused \((?P<error>-\d+)\)"
)
INJECTED = errno.EAGAIN
# If one of these did not fail, the injection did not reach the code that it is for.
MUST_FAIL = {
    "off": ("sched:active", "workqueue:online", "smpboot/threads:online", "cpu:teardown"),
    "on": ("sched:active", "workqueue:online", "smpboot/threads:online", "threads:prepare", "cpu:bringup"),
}


def of_kind(records: Iterable[Record], kind: str) -> list[Record]:
    """Return the records of one kind."""
    return [record for record in records if record["kind"] == kind]


def the(records: Iterable[Record], kind: str) -> Record:
    """Return the only record of a kind."""
    (found,) = of_kind(records, kind)
    return found


def files(records: Iterable[Record]) -> dict[str, bytes]:
    """Return the files that a script has handed over, by their names."""
    parts: dict[str, str] = {}
    for found in of_kind(records, FILE):
        parts[found["name"]] = parts.get(found["name"], "") + found["part"]
    return {name: zlib.decompress(base64.b64decode(text)) for name, text in parts.items()}


def completed(records: Iterable[Record], machine: Record) -> list[str]:
    """Check that the script reached its end with every CPU online."""
    ends = of_kind(records, "end")
    if len(ends) != 1:
        return ["the script did not reach its end"]
    missing = sorted(set(machine["present"]) - set(ends[0]["online"]))
    return [f"CPUs {missing} are not online at the end"] if missing else []


def chunks(victims: Sequence[int], size: int) -> list[list[int]]:
    """Return the chunks in which CPUs go."""
    return [list(victims[start : start + size]) for start in range(0, len(victims), size)]


def rendezvous(gone: Sequence[int], victims: Sequence[int], size: int) -> int:
    """How many rendezvous it takes: one for each chunk of which at least one CPU went."""
    return sum(1 for chunk in chunks(victims, size) if set(chunk) & set(gone))


# --- faults -------------------------------------------------------------------------------------------


def fault_problems(records: Sequence[Record]) -> list[str]:
    """Everything about an injection run."""
    machine = the(records, "machine")
    bench = Faults(machine, of_kind(records, "baseline"))
    found = completed(records, machine) + bench.baseline_problems()
    found += [
        f"before a switch {record['direction']}: {record['online']} online"
        for record in of_kind(records, "stuck")
    ]
    for record in of_kind(records, "fault"):
        title = f"{record['direction']}, {record['name']} ({record['state']}) in CPU {record['cpu']}"
        title += f", {record['position']} of its chunk"
        found += [f"{title}: {problem}" for problem in bench.problems(record)]
    return found + reach_problems(of_kind(records, "fault"))


def reach_problems(faults: Sequence[Record]) -> list[str]:
    """Whether the states that matter failed, each in all places."""
    found = []
    for direction, names in MUST_FAIL.items():
        for name in names:
            places = {
                fault["position"]
                for fault in faults
                if fault["fired"] and (fault["direction"], fault["name"]) == (direction, name)
            }
            if places != {"first", "middle", "last"}:
                found.append(f"{direction}: {name} failed in {sorted(places)} only")
    return found


class Faults:
    """What the machine has to look like after a fault, from what it looked like before any."""

    def __init__(self, machine: Record, baseline: Sequence[Record]) -> None:
        self.present: list[int] = machine["present"]
        self.victims: list[int] = machine["victims"]
        self.size: int = machine["chunk"]
        self.cpusets: dict[str, list[int]] = machine["cpusets"]
        self.baseline = {record["to"]: record for record in baseline}

    @property
    def primaries(self) -> list[int]:
        """The CPUs that always stay."""
        return [cpu for cpu in self.present if cpu not in self.victims]

    def baseline_problems(self) -> list[str]:
        """Whether undisturbed switches work as chunks, with everything in place that is compared later."""
        found = []
        for value in ("off", "on"):
            record = self.baseline[value]
            found += [f"undisturbed {value}: {problem}" for problem in self.switch_problems(record)]
            if not record["domains"]:
                found.append("no sched domains to look at: the kernel needs --fragment validation")
        partition = self.baseline["on"]["cpusets"]["partition"]
        if partition["state"] != "root":
            found.append(f"the partition is {partition['state']}")
        return found

    def problems(self, fault: Record) -> list[str]:
        """Return what is wrong after a fault."""
        if not fault["fired"]:
            # The state has no callback in this direction: the switch goes through.
            return self.switch_problems({**fault, "to": fault["direction"]})
        found = self.failure_problems(fault) + self.log_problems(fault)
        for record in fault["after"]:
            found += [f"next, {record['to']}: {problem}" for problem in self.switch_problems(record)]
        return found

    def failure_problems(self, fault: Record) -> list[str]:
        """Earlier CPUs went, the failing one and those after it did not; the writer knows."""
        before = self.victims[: self.victims.index(fault["cpu"])]
        off = fault["direction"] == "off"
        wanted = [c for c in self.present if c not in before] if off else sorted([*self.primaries, *before])
        found = []
        if fault["error"] != INJECTED:
            found.append(f"the writer got error {fault['error']}, not {INJECTED}")
        if fault["online"] != wanted:
            found.append(f"{fault['online']} online, not {wanted}")
        # On the way up only the failing CPU goes down again.
        limit = rendezvous(before, self.victims, self.size) if off else 1
        if fault["rendezvous"] > limit:
            found.append(f"{fault['rendezvous']} rendezvous, not {limit}")
        return found + self.state_problems(fault, wanted)

    def switch_problems(self, record: Record) -> list[str]:
        """Judge a switch that has to succeed, in chunks, and what it leaves behind."""
        off = record["to"] == "off"
        wanted = self.primaries if off else self.present
        found = []
        if record["error"]:
            found.append(f"failed with error {record['error']}")
        if record["online"] != wanted:
            found.append(f"{record['online']} online, not {wanted}")
        if off and record["rendezvous"] > rendezvous(self.victims, self.victims, self.size):
            found.append(f"{record['rendezvous']} rendezvous: CPUs went one by one")
        return found + self.state_problems(record, wanted)

    def state_problems(self, record: Record, online: Sequence[int]) -> list[str]:
        """Domains and cpusets against the CPUs that should be online."""
        found = []
        wanted = self.domains(online)
        for cpu in online:
            got = distinct(record["domains"].get(str(cpu), [])) if record["domains"] else None
            if got != wanted[cpu]:
                found.append(f"domains of CPU {cpu} span {got}, not {wanted[cpu]}")
        for name, spans in self.effective(online).items():
            got = record["cpusets"][name]["effective"]
            if got != spans:
                found.append(f"cpuset {name} has {got}, not {spans}")
            if record["cpusets"][name]["state"] != self.baseline["on"]["cpusets"][name]["state"]:
                found.append(f"cpuset {name} is now {record['cpusets'][name]['state']}")
        return found

    def domains(self, online: Sequence[int]) -> dict[int, list[list[int]]]:
        """Return the spans that are left of the full ones, without those that became pointless."""
        full = self.baseline["on"]["domains"] or {}
        return {
            cpu: distinct([sorted(set(span) & set(online)) for span in full.get(str(cpu), [])])
            for cpu in online
        }

    def effective(self, online: Sequence[int]) -> dict[str, list[int]]:
        """Return what each cpuset has of its CPUs; a member without any has its parent's."""
        partition = sorted(set(self.cpusets["partition"]) & set(online))
        rest = sorted(set(online) - set(partition))
        return {"partition": partition, "member": sorted(set(self.cpusets["member"]) & set(rest)) or rest}

    def log_problems(self, fault: Record) -> list[str]:
        """Check that the kernel named CPU and state, once."""
        matches = [match for line in fault["log"] if (match := REFUSED.search(line))]
        got = [(int(m["cpu"]), m["where"], m["state"], int(m["error"])) for m in matches]
        wanted = (fault["cpu"], f"{fault['direction']}line", fault["name"], -INJECTED)
        return [] if got == [wanted] else [f"the log says {got or fault['log']}, not {wanted}"]


def distinct(spans: Iterable[list[int]]) -> list[list[int]]:
    """Spans of more than one CPU, each once."""
    found: list[list[int]] = []
    for span in spans:
        if len(span) > 1 and span not in found:
            found.append(span)
    return found


# --- stress -------------------------------------------------------------------------------------------


def stress_problems(records: Sequence[Record], switches: int) -> list[str]:
    """Everything about a stress run of at least so many switches."""
    machine = the(records, "machine")
    found = completed(records, machine)
    made = of_kind(records, "switch")
    if len(made) < switches:
        found.append(f"{len(made)} switches, not {switches}")
    for record in made:
        title = f"switch {record['number']} ({record['phase']}) to {record['to']}, chunk {record['chunk']}"
        found += [f"{title}: {problem}" for problem in stressed_problems(record, machine)]
    found += quiet_problems(of_kind(records, "quiet"), machine)
    needed = [QUEUE_LOAD, *([] if machine["realtime"] else [DEADLINE_LOAD])]
    return found + load_problems(of_kind(records, "loads"), needed)


def stressed_problems(record: Record, machine: Record) -> list[str]:
    """Under load a switch succeeds all the same; only the CPUs of the other writers may be either way."""
    limit = {"off": 1, "on": len(machine["present"])}.get(record["to"]) or int(record["to"])
    allowed = {cpu for cpu in machine["present"] if machine["threads"][str(cpu)] < limit}
    online = set(record["online"])
    found = []
    if record["error"]:
        found.append(f"error {record['error']}, {record['log']}")
    if not record["error"] and online - allowed:
        found.append(f"CPUs {sorted(online - allowed)} are still online")
    if not record["error"] and allowed - online - set(machine["writers"]):
        found.append(f"CPUs {sorted(allowed - online - set(machine['writers']))} are not online")
    return found


def quiet_problems(quiet: Sequence[Record], machine: Record) -> list[str]:
    """Between the phases: switches go in chunks, and leave the domains that they left in the beginning."""
    found = []
    first = {record["to"]: record["domains"] for record in quiet if record["phase"] == "before"}
    if not all(first.values()) or not first:
        found.append("no sched domains to look at: the kernel needs --fragment validation")
    for record in quiet:
        title = f"{record['to']}, quiet, {record['phase']}"
        limit = rendezvous(machine["victims"], machine["victims"], record["chunk"])
        if record["error"]:
            found.append(f"{title}: error {record['error']}")
        if record["to"] == "off" and record["rendezvous"] > limit:
            found.append(f"{title}: {record['rendezvous']} rendezvous, not {limit}: CPUs went one by one")
        if record["domains"] != first.get(record["to"]):
            found.append(f"{title}: the domains are not those from before")
        if record["to"] == "off":
            found += [f"{title}: {problem}" for problem in parking_problems(record, machine)]
    return found


def parking_problems(record: Record, machine: Record) -> list[str]:
    """Once a CPU of a chunk has parked its threads, no other one may run callbacks that may wait for it."""
    found = []
    parked, victims = record["parked"], len(machine["victims"])
    if parked != victims or record["lost"]:
        found.append(
            f"{parked} CPUs parked their threads, not {victims}, in a trace that lost {record['lost']} events"
        )
    if record["strays"]:
        found.append(
            f"{len(record['strays'])} callbacks began while another CPU's threads were parked, "
            f"such as {record['strays'][0]}"
        )
    return found


def load_problems(phases: Sequence[Record], needed: Sequence[str]) -> list[str]:
    """Every load got something done, or the stress was none; those that are needed were there."""
    if len(phases) != 2:
        return [f"{len(phases)} phases, not 2"]
    found = [
        f"phase {number}: no {name}"
        for number, phase in enumerate(phases, start=1)
        for name in needed
        if name not in phase["started"]
    ]
    return found + [
        f"phase {number}: {name} never succeeded: {counts}"
        for number, phase in enumerate(phases, start=1)
        for name in phase["started"]
        if not (counts := phase["counts"].get(name, {})).get("ok")
    ]


# --- the kernel's own tests -----------------------------------------------------------------------------


def selftest_problems(records: Sequence[Record]) -> list[str]:
    """Both forms of the script passed each time, and the SMT switches in between worked."""
    machine = the(records, "machine")
    found = completed(records, machine)
    runs = of_kind(records, "selftest")
    if [run["options"] for run in runs] != [[], ["-a"]] * 2:
        found.append(f"runs: {[run['options'] for run in runs]}")
    for run in runs:
        if run["exit_code"] or run["complaints"]:
            found.append(f"{run['options']}: exit code {run['exit_code']}, {run['complaints']}")
        if run["online"] != machine["present"]:
            found.append(f"{run['options']}: {run['online']} online afterwards")
    return found + plain_switch_problems(of_kind(records, "switch"), machine, chunk=64)


def plain_switch_problems(switches: Sequence[Record], machine: Record, chunk: int) -> list[str]:
    """Switches without other load."""
    found = []
    primaries = [cpu for cpu in machine["present"] if cpu not in machine["victims"]]
    for record in switches:
        wanted = primaries if record["to"] == "off" else machine["present"]
        limit = rendezvous(machine["victims"], machine["victims"], record.get("chunk", chunk))
        if record["error"] or record["online"] != wanted:
            found.append(f"{record['to']}: error {record['error']}, {record['online']} online")
        if record["to"] == "off" and record["rendezvous"] > limit:
            found.append(f"off: {record['rendezvous']} rendezvous, not {limit}: CPUs went one by one")
    return found or ([] if switches else ["no switches"])


STATISTICS = re.compile(
    r"rcu-torture: rtc: \S+ ver: (?P<versions>\d+) .*?rtmbe: (?P<barriers>\d+) .*?"
    r"onoff: (?P<came>\d+)/(?P<came_tried>\d+):(?P<gone>\d+)/(?P<gone_tried>\d+)"
)


def torture_problems(log: str, operations: int) -> list[str]:
    """Rcutorture ended with success, after enough CPU hotplug of its own."""
    found = []
    ends = re.findall(r"rcu-torture:.*End of test: (\w+)", log)
    if ends != ["SUCCESS"]:
        found.append(f"end of test: {ends or 'none'}")
    numbers = [match.groupdict() for match in STATISTICS.finditer(log)]
    if not numbers:
        return [*found, "no statistics"]
    last = {key: int(value) for key, value in numbers[-1].items()}
    if last["versions"] < 100:
        found.append(f"{last['versions']} updates: rcutorture hardly ran")
    if min(last["came"], last["gone"]) < operations:
        found.append(f"{last['gone']} CPUs off and {last['came']} on, not {operations}")
    return found


# --- the kernel's selftests of timers -----------------------------------------------------------------

SKIPPED = 4
"""kselftest's exit code for a test that was skipped."""


def timers_problems(stock: Sequence[Record], patched: Sequence[Record]) -> list[str]:
    """Return what ends in another way than on the stock kernel, and is not better for it."""
    found = []
    before = {_timer(record): record for record in of_kind(stock, "timers")}
    after = {_timer(record): record for record in of_kind(patched, "timers")}
    if not before or before.keys() != after.keys():
        found.append("stock and patched did not run the same programs")
    if not any(record["code"] == 0 for record in before.values()):
        found.append("nothing passes on the stock kernel, so there is nothing to compare with")
    for key in before.keys() & after.keys():
        title = " with ".join(key)
        new = sorted(set(after[key]["failed"]) - set(before[key]["failed"]))
        if new:
            found.append(f"{title}: failed, which the stock kernel does not: {'; '.join(new)}")
        elif before[key]["code"] == 0 != after[key]["code"]:
            found.append(f"{title}: {_ending(after[key])}, which the stock kernel does not")
    return found


def timers_table(stock: Sequence[Record], patched: Sequence[Record]) -> list[str]:
    """Return a line in Markdown for each program and clocksource."""
    after = {_timer(record): record for record in of_kind(patched, "timers")}
    lines = ["| program | clocksource | stock | patched |", "|---|---|---|---|"]
    for record in of_kind(stock, "timers"):
        cells = [*_timer(record), _ending(record), _ending(after.get(_timer(record)))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _timer(record: Record) -> tuple[str, str]:
    return record["program"], record["clocksource"]


def _ending(record: Record | None) -> str:
    if record is None:
        return "did not run"
    if record["code"] is None:
        return "took too long"
    if record["code"] == SKIPPED:
        return "skipped"
    failed = f" ({len(record['failed'])} parts)" if record["failed"] else ""
    return f"ended with {record['code']}{failed}" if record["code"] else "passed"
