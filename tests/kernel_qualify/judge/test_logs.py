"""The kernel's log: what counts as trouble, what belongs to one report, and what exceptions cover."""

import pytest

import tests
from kernel_qualify.judge import logs
from kernel_qualify.judge.logs import Allowed

GOLDEN = tests.GOLDEN / "lpar_lab/console"
QUIET = """\
[    0.000000] rcu: \tRCU lockdep checking is enabled.
[    0.000000] rcu: \tRCU debug extended QS entry/exit.
[    3.120000] smp: Brought up 1 node, 16 CPUs
[   70.410000] process 311 (python3) no longer affine to cpu5
[   71.000000] CPU 7 cannot go offline: sched:active refused (-11)
"""


def test_a_quiet_log_has_no_problem() -> None:
    assert logs.problems(QUIET) == []


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 3 PID: 31 at kernel/sched/core.c:8409 sched_cpu_dying+0x2c8/0x320",
        "WARNING: possible circular locking dependency detected",
        "WARNING: suspicious RCU usage",
        "WARNING: inconsistent lock state",
        "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:585",
        "BUG: scheduling while atomic: cpuhp/3/31/0x00000002",
        "BUG: KASAN: slab-use-after-free in detach_destroy_domains+0x9c/0x140",
        "BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 31s!",
        "BUG: using smp_processor_id() in preemptible [00000000] code: cpuhp/3/31",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [migration/3:28]",
        "INFO: task cpuhp/3:31 blocked for more than 120 seconds.",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-... } 21 jiffies",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "Oops: Kernel access of bad area, sig: 11 [#1]",
        "Kernel panic - not syncing: Fatal exception",
        "ODEBUG: free active (active state 0) object: 00000000a5 object type: timer_list",
        "DEBUG_LOCKS_WARN_ON(lock->magic != lock)",
        "Dying CPU not properly vacated!",
        "Querying DEAD? cpu 3 (3) shows 2: CPU 3 did not die",
        "Processor 5 is stuck.",
        "rcu-torture: !!! Reader Pipe:  1 2 3",
        "rcu-torture:--- End of test: FAILURE: nreaders=15",
        "Call Trace:",
        "RCU used illegally from offline CPU!",
        "list_add corruption. next->prev should be prev",
    ],
)
def test_trouble_is_noticed(line: str) -> None:
    assert logs.problems(f"{QUIET}[   80.000000] {line}\n[   80.1] more\n") == [line]
    assert logs.problems(f"[   80.000000][   T31] {line}\n") == [line]


@pytest.mark.parametrize("log", sorted(path.name for path in GOLDEN.glob("*.log")) if GOLDEN.exists() else [])
def test_what_the_lab_knows_as_bad_is_bad_here(log: str) -> None:
    from hotplug_common.guest import console  # noqa: PLC0415

    text = (GOLDEN / log).read_text(errors="replace")
    verdict = console.classify(text.splitlines(), console.load_rules())
    if any(finding.name != "emergency mode" for finding in verdict.findings):
        assert logs.problems(text)


REPORT = """\
[   90.0] =============================
[   90.0] WARNING: suspicious RCU usage
[   90.0] 6.12.117 Not tainted
[   90.0] RCU used illegally from offline CPU!
[   90.0] Call Trace:
[   90.0] [c000] some_function+0x10/0x20
"""
ENTRY = Allowed("suspicious RCU usage|RCU used illegally", "some_function", "it is the stock kernel's own")


def test_an_exception_covers_a_report_that_has_its_body() -> None:
    assert logs.problems(REPORT, (ENTRY,)) == []
    assert logs.problems(REPORT.replace("some_function", "other_function"), (ENTRY,))


def test_an_exception_does_not_cover_the_next_report() -> None:
    log = REPORT + "[   91.0] WARNING: CPU: 1 PID: 2 at kernel/cpu.c:1 takedown_cpus+0x1/0x2\n"
    assert logs.problems(log, (ENTRY,)) == ["WARNING: CPU: 1 PID: 2 at kernel/cpu.c:1 takedown_cpus+0x1/0x2"]


def test_what_two_cpus_say_at_once_is_one_report() -> None:
    both = """\
[   41.578858] WARNING: suspicious RCU usage
[   41.578967] =============================
[   41.578985] WARNING: suspicious RCU usage
[   41.578962] 6.12 #1 Not tainted
[   41.582186] [c0000000037b7da0] [c000000000096008] xive_spapr_put_ipi+0xc8/0x128
"""
    table = [Allowed("suspicious RCU usage", "xive_spapr_put_ipi", "why")]
    assert len(logs.reports(both.splitlines())) == 1
    assert logs.problems(both, table) == []
    later = both + "\n" * logs.SIDE_BY_SIDE + "[   42.000000] WARNING: suspicious RCU usage\n"
    assert logs.problems(later, table) == ["WARNING: suspicious RCU usage"]


def test_a_trace_long_after_a_report_is_one_of_its_own() -> None:
    filler = "[   95.0] nothing\n" * logs.REPORT_LINES
    assert logs.problems(REPORT + filler + "[   99.0] Call Trace:\n", (ENTRY,)) == ["Call Trace:"]


@pytest.mark.parametrize(
    "head",
    [
        "WARNING: CPU: 0 PID: 443 at cpuset_attach_task+0x110/0x150",
        "WARNING: CPU: 0 PID: 443 at kernel/cgroup/cpuset.c:3099 cpuset_attach_task+0x110/0x150",
        "WARNING: at cpuset_attach_task+0x110/0x150, CPU#0: python3/443",
    ],
)
def test_both_kernel_lines_name_the_place_of_a_warning(head: str) -> None:
    body = ["Call Trace:", "__cgroup1_procs_write.constprop.0+0x16c/0x208"]
    assert logs.problems("\n".join([head, *body])) == []
    assert logs.problems(head) != []


def test_of_an_affinity_only_the_warning_of_preempt_rt_is_allowed() -> None:
    head = "WARNING: CPU: 0 PID: 122 at affine_move_task+0x31f/0x5d0"
    called_by = {
        name: f"{head}\nCall Trace:\n {name}+0x7e/0xd0\n" for name in ("migrate_enable", "sched_setaffinity")
    }
    assert logs.problems(called_by["migrate_enable"]) == []
    assert logs.problems(called_by["sched_setaffinity"]) == [head]


def test_of_the_timekeeper_only_the_race_of_its_copy_is_allowed() -> None:
    head = "BUG: KCSAN: data-race in {} / timekeeping_update_from_shadow.constprop.0"
    of_the_copy = "\nwrite to 0xffffffff82ec5078 of 328 bytes by interrupt on cpu 12:\n"
    ours = logs.between({"timekeeping_update_from_shadow"})
    for reader in ("ktime_get", "ktime_get_ts64"):
        assert logs.problems_of(head.format(reader) + of_the_copy, ours) == []
    other = head.format("tk_rate")
    assert logs.problems_of(other + of_the_copy, ours) == [other]
    one_field = head.format("ktime_get") + of_the_copy.replace("328", "8")
    assert logs.problems_of(one_field, ours) == [head.format("ktime_get")]


def test_exceptions_have_reasons() -> None:
    for entry in logs.ALLOWED:
        assert len(entry.reason.split()) > 8
        assert entry.head
        assert entry.body


def test_the_fallback_is_noticed() -> None:
    line = "CPUs go down one by one because of RCU_TORTURE"
    assert logs.went_one_by_one(f"{QUIET}[   99.0] {line}\n") == [line]
    assert logs.went_one_by_one(QUIET) == []


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("WARNING: CPU: 3 PID: 178 at kernel/rcu/rcutorture.c:1478 rcu_torture_writer+0xa68/0xc60", True),
        (
            "WARNING: ../kernel/rcu/rcutorture.c:1478 at rcu_torture_writer+0x1218/0x1370, CPU#0: x",
            True,
        ),
        (
            "WARNING: ../kernel/rcu/rcutorture.c:1479 at rcu_torture_writer+0x1218/0x1370, CPU#0: x",
            False,
        ),
        ("WARNING: kernel/rcu/rcutorture.c:1478 at rcu_torture_stats_print+0x10/0x40, CPU#0: x", False),
        ("WARNING: kernel/rcu/tree.c:1478 at rcu_torture_writer+0x10/0x40, CPU#0: x", False),
    ],
    ids=["6.12", "7.3", "another line", "another function", "another file"],
)
def test_rcutortures_own_warning_is_told_by_its_text_on_both_lines(line: str, allowed: bool) -> None:
    found = logs.problems(f"[  1.000000] {line}", [logs.expedited_by_others(1478)])
    assert (not found) is allowed


RACES = """\
[   30.0] BUG: KCSAN: data-race in {0} / wake_up_process
[   31.0] BUG: KCSAN: data-race in tick_sched_do_timer / {0}.isra.0
[   32.0] BUG: KCSAN: data-race in {0}+0x44/0x90
[   32.1] write to 0xc000 of 8 bytes by task 31 on cpu 1:
[   32.2]  cpuhp_thread_fun+0x4c/0x100
"""


@pytest.mark.parametrize(
    ("function", "count"), [("takedown_cpus", 3), ("enqueue_hrtimer", 0), ("takedown", 0)]
)
def test_a_race_counts_if_one_of_the_two_is_ours_and_not_by_its_trace(function: str, count: int) -> None:
    ours = logs.between({"takedown_cpus", "cpuhp_thread_fun"})
    log = f"{RACES.format(function)}[   40.0] WARNING: suspicious RCU usage\n"
    assert len(logs.problems_of(log, ours)) == count + 1


LIBRARY_RACE = """\
[   63.6] BUG: KCSAN: data-race in _find_next_bit+0x50/0x1c0
[   63.7]
[   63.8] race at unknown origin, with read to 0xc0000000013b2180 of 8 bytes by interrupt on cpu 1:
[   63.9]  _find_next_bit+0x50/0x1c0
[   64.0]  {}+0x1fc/0x5b0
[   64.1]  handle_softirqs+0x264/0x700
"""


@pytest.mark.parametrize(
    ("caller", "count"), [("cpu_successor", 1), ("_nohz_idle_balance", 0), ("cpu_successor.isra.0", 1)]
)
def test_a_race_in_a_function_of_the_library_is_its_callers(caller: str, count: int) -> None:
    ours = logs.between({"cpu_successor", "handle_softirqs"})
    assert len(logs.problems_of(LIBRARY_RACE.format(caller), ours)) == count


def test_a_kernel_in_which_kcsan_sees_no_race_has_not_looked() -> None:
    assert logs.saw_no_race(QUIET + "kcsan: enabled early\n")
    assert logs.saw_no_race(RACES.format("other")) == []
