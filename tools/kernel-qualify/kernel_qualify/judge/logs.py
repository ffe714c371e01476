"""What the kernel's log must not say, and the exceptions to that, with their reasons."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hotplug_common.guest import console

# The first line of anything that a kernel reports against itself.
TROUBLE = re.compile(
    r"\bWARNING: |\bBUG: |\bINFO: (?:task|rcu|possible|suspicious|inconsistent|lockdep|NMI|trying)"
    r"|\bOops\b|Kernel panic|Unable to handle|unable to handle|Badness at|Call Trace:"
    r"|KASAN: |UBSAN: |ODEBUG: |DEBUG_LOCKS_WARN|RCU used illegally|suspicious RCU usage"
    r"|(?:soft|hard) (?:lockup|LOCKUP)|workqueue lockup|detected (?:expedited )?stalls?|self-detected stall"
    r"|scheduling while atomic|sleeping function called|blocked for more than"
    r"|not properly vacated|refused to die|is stuck|did not die|list_(?:add|del) corruption"
    r"|DEAD callback error|turning off the locking correctness validator"
    r"|rcu-torture: .*!!!|End of test: (?:FAILURE|RCU_HOTPLUG)"
)
# What stands inside of a report rather than at its beginning.
FOLLOWS = re.compile(r"Call Trace:|RCU used illegally|DEBUG_LOCKS_WARN")
SIDE_BY_SIDE = 4
"""Two CPUs that report the same at the same time have their first lines so close together."""
REPORT_LINES = 120
"""How far from its first line a report goes at the most."""
KCSAN = "KCSAN: "
RACE = re.compile(KCSAN + r"data-race in (\w+)[\w.+/]*(?: / (\w+))?")
"""The head of a report of KCSAN: the functions that race, of which it may know one only."""
FRAME = re.compile(r"^ (\w+)[\w.]*\+0x")
LIBRARY = re.compile(r"_find_|__bitmap_|mem(?:cpy|move|set|cmp)$")
"""Functions that access what their caller has: a race in one of them is the caller's."""


@dataclass(frozen=True)
class Allowed:
    """A report that says nothing against the series: what it looks like, and why."""

    head: str
    body: str
    reason: str


ALLOWED = (
    Allowed(
        # 6.12 puts the CPU and the process before the place, 7.3 after it.
        r"WARNING: (.* )?at (\S+ )?cpuset_attach_task",
        "__cgroup1_procs_write",
        "from reading stock 6.12 and 7.3: a task whose CPUs are all offline moves to the root of version 1, "
        "and set_cpus_allowed_ptr() has only offline CPUs to choose from: EINVAL",
    ),
    Allowed(
        r"WARNING: (.* )?at (\S+ )?affine_move_task",
        "migrate_enable",
        "from reading stock 6.12: a kernel thread stays where it is if the CPU that it has to move to begins "
        "to go offline, as a comment of migration_cpu_stop() has it; PREEMPT_RT warns when it may move again",
    ),
    Allowed(
        "WARNING: nvram corruption detected",
        "0-length partition",
        "not the kernel's: an emulated pseries starts with an empty NVRAM, and nothing formats it",
    ),
    Allowed(
        "suspicious RCU usage",
        "xive_spapr_put_ipi",
        "the stock kernel says it, too, when its first CPU goes offline by a write to cpuN/online: a dying "
        "CPU takes a spinlock in xive_teardown_cpu(), when RCU does not watch it any more",
    ),
    Allowed(
        r"KCSAN: data-race in ktime_get\w* / timekeeping_update_from_shadow",
        r"write to \S+ of 3\d\d bytes",
        "stock 7.3 with KCSAN reports it, too: the copy of the whole timekeeper at the end of that function, "
        "which the series leaves as it is; its readers look at the sequence count and read again",
    ),
)


TORTURE = "kernel/rcu/rcutorture.c"


def expedited_by_others(line: int) -> Allowed:
    """Rcutorture's warning that somebody else expedites grace periods, which is at LINE of TORTURE."""
    return Allowed(
        rf"WARNING: (.* at )?\S*{TORTURE}:{line} (at )?rcu_torture_writer",
        "rcu_torture_writer",
        "an SMT switch expedites grace periods while it lasts, as suspend does: rcutorture wants to be alone",
    )


@dataclass
class Report:
    """One report: its first line, and what follows up to the next one."""

    head: str
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines)

    def allowed_by(self, table: Sequence[Allowed]) -> Allowed | None:
        """Return the exception that covers this report."""
        for entry in table:
            if re.search(entry.head, self.head) and re.search(entry.body, self.text):
                return entry
        return None


def reports(log: Iterable[str]) -> list[Report]:
    """Return the reports in a log, in order. A call trace and the like belong to the report before them.

    What two CPUs say at once, line by line in between each other, is one report.
    """
    found: list[Report] = []
    since = REPORT_LINES
    for raw in log:
        line = console.plain(raw)
        since += 1
        inside = since < REPORT_LINES and FOLLOWS.search(line)
        twin = since < SIDE_BY_SIDE and line == found[-1].head
        if TROUBLE.search(line) and not inside and not twin:
            found.append(Report(line))
            since = 0
        if since < REPORT_LINES:
            found[-1].lines.append(line)
    return found


def problems(log: str, table: Sequence[Allowed] = ALLOWED) -> list[str]:
    """Return the first line of each report that no exception covers."""
    return [report.head for report in reports(log.splitlines()) if not report.allowed_by(table)]


def went_one_by_one(log: str) -> list[str]:
    """Return what the kernel says when it could not take CPUs down together."""
    return [console.plain(line) for line in log.splitlines() if "one by one because of" in line]


Ours = Callable[[Report], bool]
"""Whether a race that KCSAN reports is one of the series."""


def mentions(places: str) -> Ours:
    """Return whether a report mentions any of `places`, a pattern for functions and files."""
    return lambda report: bool(re.search(places, report.text))


def between(functions: Collection[str]) -> Ours:
    """Return whether one of the two functions that race is among `functions`.

    The rest of a trace is no help for CPU hotplug: its thread runs each callback of the kernel.
    """
    return lambda report: not _racing(report).isdisjoint(functions)


def _racing(report: Report) -> set[str]:
    """Return the functions that race, and the callers of those that are of the library."""
    head = RACE.search(report.head)
    found = {name for name in head.groups() if name} if head else set()
    frames = [frame[1] for frame in map(FRAME.search, report.lines) if frame]
    callers = {caller for callee, caller in pairwise(frames) if LIBRARY.match(callee)}
    return found | callers


def problems_of(log: str, ours: Ours) -> list[str]:
    """Return the same of a kernel with KCSAN: of the data races it finds, those that are `ours`.

    All others are those of the kernel below the series, and many.
    """
    return [
        report.head
        for report in reports(log.splitlines())
        if not report.allowed_by(ALLOWED) and (KCSAN not in report.head or ours(report))
    ]


def saw_no_race(log: str) -> list[str]:
    """Return a problem where KCSAN has reported no race at all: stock has some, so it has not looked."""
    return [] if RACE.search(log) else ["KCSAN has reported no race, not even one of the stock kernel"]
