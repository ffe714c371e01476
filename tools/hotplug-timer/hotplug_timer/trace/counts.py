"""How often a transition waits, stops the machine, rebuilds domains and interrupts CPUs, and who calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotplug_common.tables import Table
from hotplug_timer.trace.events import Event, Handlers, readable
from hotplug_timer.trace.model import Analysis, Cells, Folded, table

#: What is counted, by the traced function.
NAMES = {
    "synchronize_rcu": "grace-period waits",
    "synchronize_rcu_expedited": "expedited waits",
    "stop_machine_cpuslocked": "rendezvous",
    "partition_sched_domains_locked": "domain rebuilds",
    "partition_sched_domains": "domain rebuilds",
}
IPI = "IPI calls"
UNKNOWN = "[unknown]"
#: An IPI without a callback makes the other CPU look at what to run.
RESCHEDULE = "[reschedule]"
#: It is still there when recording begins, and is not part of the transition.
RECORDER = b"trace-cmd"


@dataclass
class Counts(Analysis):
    """Counts calls. A call that interrupts several CPUs at once is one."""

    unit = "calls"
    title = "Calls that cost the whole machine, below their caller"

    _calls: dict[bytes, int] = field(default_factory=dict)
    _sent: dict[bytes, int] = field(default_factory=dict)
    _files: int = 0

    def handlers(self) -> Handlers:
        """Return what takes function and IPI events."""
        ipis = ("ipi_send_cpu", "ipi_send_cpumask", "ipi_raise")
        return {"function": self._function, **dict.fromkeys(ipis, self._ipi)}

    def end_file(self) -> None:
        """Count the file: it is one transition."""
        self._files += 1

    def tables(self, top: int) -> tuple[Table[Cells], ...]:
        """Return totals per transition, and callers of each by number of calls."""
        files = max(self._files, 1)
        pairs = self._pairs()
        totals = dict.fromkeys([*NAMES.values(), IPI], 0)
        for (what, _, _), calls in pairs.items():
            totals[what] = totals.get(what, 0) + calls
        # What costs the whole machine comes first: interrupts are many, and cheap.
        order = {what: number for number, what in enumerate(totals)}
        callers = sorted(pairs.items(), key=lambda item: (order[item[0][0]], -item[1], item[0]))[:top]
        return (
            table(
                "counts",
                f"Calls per transition, in {self._files} traced",
                ("what", "calls", "per transition"),
                tuple((what, calls, calls / files) for what, calls in totals.items()),
                ("what",),
            ),
            table(
                "callers",
                "Who calls",
                ("what", "function", "caller", "calls", "per transition"),
                tuple((*key, calls, calls / files) for key, calls in callers),
                ("what", "function", "caller"),
            ),
        )

    def folded(self) -> Folded:
        """Return functions below their caller."""
        folded: Folded = {}
        for (_, function, caller), calls in self._pairs().items():
            folded[caller, function] = folded.get((caller, function), 0) + calls
        return folded

    def _pairs(self) -> dict[tuple[str, str, str], int]:
        """Return calls by what they are, function and caller."""
        pairs: dict[tuple[str, str, str], int] = {}
        for info, calls in self._calls.items():
            function, _, caller = info.partition(b"<--")
            name = readable(function)
            key = (NAMES.get(name, name), name, readable(caller) or UNKNOWN)
            pairs[key] = pairs.get(key, 0) + calls
        for info, calls in self._sent.items():
            words = dict(word.split(b"=", 1) for word in info.split() if b"=" in word)
            callback, site = (
                readable(words.get(name, b"").partition(b"+")[0]) for name in (b"callback", b"callsite")
            )
            callback = RESCHEDULE if callback in ("0x0", "(nil)") else callback
            key = (IPI, callback or UNKNOWN, site or UNKNOWN)
            pairs[key] = pairs.get(key, 0) + calls
        return pairs

    def _function(self, event: Event) -> None:
        if event.task.endswith(RECORDER):
            return
        self._calls[event.info] = self._calls.get(event.info, 0) + 1

    def _ipi(self, event: Event) -> None:
        if event.task.endswith(RECORDER):
            return
        # Without the receiver, of which there are as many as CPUs.
        info = event.info[max(event.info.find(b"callsite="), 0) :]
        self._sent[info] = self._sent.get(info, 0) + 1
