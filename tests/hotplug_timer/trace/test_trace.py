import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_common.tables import to_csv, to_json, to_markdown
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import cli
from hotplug_timer.trace.blocked import is_idle, thread_kind
from hotplug_timer.trace.command import ANALYSES, find_mode, read
from hotplug_timer.trace.command import analyse as analyse_files
from hotplug_timer.trace.events import Event, frames, readable, scan
from hotplug_timer.trace.flame import _colour, to_folded, to_svg
from hotplug_timer.trace.model import Analysis, Folded
from hotplug_timer.trace.offcpu import OffCpu
from hotplug_timer.trace.source import MAGIC, MAX_LINE
from hotplug_timer.trace.states import States
from tests.samples import tracefiles

SVG = "{http://www.w3.org/2000/svg}"


def parse_svg(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - it is our own


def analyse(mode: str, *texts: str) -> Analysis:
    analysis = ANALYSES[mode]()
    for text in texts:
        scan(io.BytesIO(text.encode()), analysis.handlers(), "x")
        analysis.end_file()
    return analysis


def rows(analysis: Analysis, table: int = 0) -> list[tuple[object, ...]]:
    return list(analysis.tables(100)[table].rows)


def switch(out: str, state: str, into: str, ns: int, cpu: int = 0) -> str:
    """Return a sched_switch; OUT and INTO are COMM-PID."""
    sides = [f"{name.rpartition('-')[0]}:{name.rpartition('-')[2]} [120]" for name in (out, into)]
    return tracefiles.line(out, cpu, ns, "sched_switch", f"{sides[0]} {state} ==> {sides[1]}")


def stack(task: str, ns: int, *functions: str) -> str:
    lines = "".join(f"=> {name} (c000000000001234)\n" for name in functions)
    return tracefiles.line(task, 0, ns, "kernel_stack", "<stack trace >") + lines


# Golden pairs


@pytest.mark.parametrize("mode", ANALYSES)
def test_golden_texts(golden: Path, mode: str) -> None:
    cases = sorted(
        path for path in (golden / "trace").glob("*.txt") if path.with_suffix(f".{mode}.json").exists()
    )
    assert cases
    for case in cases:
        analysis = ANALYSES[mode]()
        read(case, analysis, mode, io.StringIO())
        found = {
            "tables": json.loads(to_json(analysis.sheet(20))),
            "folded": to_folded(analysis.folded()).splitlines(),
            "notices": list(analysis.notices()),
        }
        assert found == json.loads(case.with_suffix(f".{mode}.json").read_text()), case


# Events


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), min_size=1, max_size=15).filter(
    lambda name: len(name.encode()) <= 15 and name.strip()
)


@given(NAMES, st.integers(0, 2**22), st.integers(0, 4095), st.integers(0, 10**15))
def test_whatever_a_task_is_called_its_event_is_read(name: str, pid: int, cpu: int, ns: int) -> None:
    found: list[Event] = []
    text = tracefiles.line(f"{name}-{pid}", cpu, ns, "cpuhp_exit", "info")
    scan([text.encode()], {"cpuhp_exit": found.append}, "x")
    # A name made to look like the columns behind it may have its event left out, and no more.
    if re.search(r"-\d+ +\[\d+\]", name) is None:
        assert [(event.pid, event.cpu, event.ns, event.info) for event in found] == [(pid, cpu, ns, b"info")]


@given(st.lists(st.binary(max_size=200)), st.sampled_from(sorted(ANALYSES)))
def test_any_bytes_are_read_or_left_out(lines: list[bytes], mode: str) -> None:
    analysis = ANALYSES[mode]()
    whole = [line.replace(b"\n", b"") + b"\n" for line in lines]
    found = scan(whole, analysis.handlers(), "x")
    assert found.taken <= found.events <= len(lines)
    analysis.end_file()
    analysis.tables(5)


INFOS = st.text(max_size=60).filter(lambda text: "\n" not in text) | st.sampled_from(
    [
        "cpu: 0001 target:   0 step: 231 (f)",
        " cpu: 0001  state: 231 step: 231 ret: 0",
        "a:1 [120] S ==> b:2 [120]",
        "|  f() {",
        "# 1.000 us |  }",
        "1.000 us |  g();",
        "f <-- g",
    ]
)


@given(
    st.sampled_from(sorted(ANALYSES)),
    st.lists(st.tuples(st.sampled_from(["enter", "exit"]), st.integers(0, 3), st.integers(0, 99), INFOS)),
)
def test_no_event_of_a_mode_is_too_odd(mode: str, events: list[tuple[str, int, int, str]]) -> None:
    analysis = ANALYSES[mode]()
    names = sorted(analysis.handlers())
    for which, cpu, ns, info in events:
        handler = analysis.handlers()[names[0 if which == "enter" else -1]]
        handler(Event(b"task", cpu, cpu, ns, info.encode(), b"=> f (1)\n"))
    analysis.end_file()
    assert all(weight >= 0 for weight in analysis.folded().values())
    assert all(isinstance(note, str) for note in analysis.notices())


def test_times_of_six_and_nine_digits_are_the_same() -> None:
    found: list[Event] = []
    lines = [b"  a-1 [000]  1.000002: e: x\n", b"  a-1 [000] d..1. 1.000002000: e: x\n"]
    scan(lines, {"e": found.append}, "x")
    assert [event.ns for event in found] == [1_000_002_000] * 2


def test_lost_events_are_refused() -> None:
    with pytest.raises(ToolError, match="x:2: the kernel lost 12 events") as caught:
        scan([b"cpus=2\n", b"CPU:3 [12 EVENTS DROPPED]\n"], {}, "x")
    assert caught.value.code == ExitCode.INPUT
    with pytest.raises(ToolError, match="the kernel lost events"):
        scan([b"CPU:3 [EVENTS DROPPED]\n"], {}, "x")


def test_what_is_of_an_instance_is_read_as_well() -> None:
    """trace-cmd puts the name of the instance before each line but those of a stack."""
    found: list[Event] = []
    event = tracefiles.line("cpuhp/1-31", 1, 5, "cpuhp_exit", "x").encode()
    read = scan(
        [b"                     cpus=4\n", b"hotplug-timer-trace: " + event],
        {"cpuhp_exit": found.append},
        "x",
    )
    assert [(item.pid, item.ns) for item in found] == [(31, 5)]
    assert read.unknown == 0
    with pytest.raises(ToolError, match="x:1: the kernel lost 3 events"):
        scan([b"hotplug-timer-trace: CPU:0 [3 EVENTS DROPPED]\n", event], {}, "x")


def test_a_last_line_that_is_cut_short_is_left_out() -> None:
    text = switch("cpuhp/1-7", "D", "swapper/0-0", 1000) + switch("swapper/0-0", "R", "cpuhp/1-7", 5000)
    whole, cut = analyse("offcpu", text), analyse("offcpu", text.rstrip("\n"))
    assert len(rows(whole)) == 1
    assert rows(cut) == []
    found = scan(io.BytesIO(text.rstrip("\n").encode()), {}, "x")
    assert found.is_cut


def test_names_are_printable() -> None:
    assert readable(b" a\x1b[31m\xff\n") == "a\\x1b[31m\ufffd"
    assert frames(b"=> inner (c1)\n=> outer.isra.0 (c2)\n") == ("outer", "inner")
    assert frames(b"=> f.part.0 (c1)\n=> f (c2)\n=> f (c3)\n") == ("f", "f")


# States


def test_own_time_is_without_that_of_states_inside() -> None:
    def event(ns: int, name: str, info: str) -> str:
        return tracefiles.line("t-1", 0, ns, name, info)

    analysis = analyse(
        "states",
        event(0, "cpuhp_enter", "cpu: 0003 target:   0 step:  93 (takedown_cpu)")
        + event(1_000_000, "cpuhp_enter", "cpu: 0003 target:   0 step:  90 (sched_cpu_dying)")
        + event(3_000_000, "cpuhp_exit", " cpu: 0003  state:  90 step:  90 ret: 0")
        + event(10_000_000, "cpuhp_exit", " cpu: 0003  state:  93 step:  93 ret: -16"),
    )
    assert rows(analysis) == [
        (93, "takedown_cpu", 1, 0.008, 0.01, 0.01, 0.01, 3, 1),
        (90, "sched_cpu_dying", 1, 0.002, 0.002, 0.002, 0.002, 3, 0),
    ]
    assert rows(analysis, 1) == [(3, 1, 0.01, 0.01)]
    assert analysis.folded() == {("takedown_cpu",): 8000, ("takedown_cpu", "sched_cpu_dying"): 2000}


def test_a_state_that_cpus_share_takes_its_time_once_by_the_clock() -> None:
    """CPUs that go together wait in one rendezvous: the first begins, the last ends."""
    events = [(0, 1, True), (2, 2, True), (5, 2, False), (9, 1, False), (20, 3, True), (21, 3, False)]
    text = "".join(
        tracefiles.line(
            "t-1",
            0,
            ms * 1_000_000,
            "cpuhp_enter" if enters else "cpuhp_exit",
            f"cpu: {cpu:04d} target: 0 step: 93 (takedown_cpu)"
            if enters
            else f" cpu: {cpu:04d}  state: 93 step: 93 ret: 0",
        )
        for ms, cpu, enters in events
    )
    assert rows(analyse("states", text)) == [(93, "takedown_cpu", 3, 0.013, 0.013, 0.010, 0.009, 1, 0)]


def test_a_state_never_left_has_no_row_and_holds_up_no_clock() -> None:
    def event(ms: int, name: str, info: str) -> str:
        return tracefiles.line("t-1", 0, ms * 1_000_000, name, info)

    begun = event(0, "cpuhp_enter", "cpu: 0001 target: 0 step: 93 (takedown_cpu)")
    ended = event(7, "cpuhp_exit", " cpu: 0001  state: 93 step: 93 ret: 0")
    assert rows(analyse("states", begun)) == []
    assert rows(analyse("states", begun, begun + ended))[0][5] == 0.007


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 5), st.integers(0, 10**7)), max_size=60
    )
)
def test_own_times_add_up_to_the_cpus_times(steps: list[tuple[bool, int, int, int]]) -> None:
    analysis, ns = States(), 0
    handlers = analysis.handlers()
    for enters, cpu, step, gap in steps:
        ns += gap
        info = (
            f"cpu: {cpu:04d} target: 0 step: {step} (f{step})"
            if enters
            else f" cpu: {cpu:04d}  state: 0 step: {step} ret: 0"
        )
        handlers["cpuhp_enter" if enters else "cpuhp_exit"](Event(b"t", 1, 0, ns, info.encode(), b""))
    analysis.end_file()
    own, total = (sum(float(str(row[at])) for row in rows(analysis)) for at in (3, 4))
    assert own <= total + 1e-9
    assert all(0 <= float(str(row[5])) <= ns / 1e9 for row in rows(analysis))
    # What was entered and never left has no time of its own, so the rest may be inside of it.
    assert sum(float(str(row[2])) for row in rows(analysis, 1)) <= own + 1e-9


# Off-CPU


def test_blocked_time_is_by_thread_and_stack_and_runnable_time_is_none() -> None:
    idle = "swapper/0-0"
    text = (
        switch("cpuhp/7-41", "D", idle, 1_000)
        + stack("cpuhp/7-41", 1_100, "__schedule", "schedule", "synchronize_rcu", "sched_cpu_deactivate")
        + switch(idle, "R", "cpuhp/7-41", 5_001_000)
        + switch("cpuhp/7-41", "R", idle, 5_002_000)
        + switch(idle, "R", "cpuhp/7-41", 9_002_000)
        + switch("cpuhp/8-51", "D", idle, 10_000_000)
        + stack("cpuhp/8-51", 10_000_100, "__schedule", "schedule", "synchronize_rcu", "sched_cpu_deactivate")
        + switch(idle, "R", "cpuhp/8-51", 11_000_000)
        + switch("cpuhp/8-51", "P", idle, 12_000_000)
        + stack("cpuhp/8-51", 12_000_100, "__schedule", "schedule", "smpboot_thread_fn", "kthread")
        + switch(idle, "R", "cpuhp/8-51", 92_000_000)
        + switch("migration/8-52", "S", idle, 93_000_000)
    )
    analysis = analyse("offcpu", text)
    assert rows(analysis) == [("cpuhp/N", 0.006, 100.0, 2, 0.005, "synchronize_rcu < sched_cpu_deactivate")]
    assert analysis.folded() == {
        ("cpuhp/N", "sched_cpu_deactivate", "synchronize_rcu", "schedule", "__schedule"): 6000
    }
    assert analysis.notices() == (
        "0.080 s in which threads had nothing to do are left out",
        "1 waits did not end in the trace and are left out",
    )


def wait(name: str, at: int, *functions: str, state: str = "D", took: int = 1_000_000) -> str:
    """Return a thread's wait of TOOK ns in these functions, the innermost first."""
    idle = "swapper/0-0"
    return (
        switch(f"{name}-41", state, idle, at)
        + stack(f"{name}-41", at + 100, "__schedule", *functions)
        + switch(idle, "R", f"{name}-41", at + took)
    )


def test_a_wait_for_another_thread_of_the_switch_is_in_a_table_of_its_own() -> None:
    text = (
        wait("ppc64_cpu", 0, "schedule", "__flush_work", "work_on_cpu_key", took=9_000_000)
        + wait(
            "kworker/0:1", 10_000_000, "schedule", "wait_for_completion", "cpuhp_kick_ap_work", "_cpu_down"
        )
        + wait(
            "kworker/0:1", 20_000_000, "schedule", "percpu_rwsem_wait", "cpus_read_lock", "vmstat_shepherd"
        )
        + wait("cpuhp/7", 30_000_000, "schedule", "synchronize_rcu_normal", "sched_cpu_deactivate")
    )
    analysis = analyse("offcpu", text)
    assert [row[2] for row in rows(analysis)] == [100.0]
    assert [row[-1] for row in rows(analysis)] == ["synchronize_rcu_normal < sched_cpu_deactivate"]
    assert [str(row[-1]).partition(" ")[0] for row in rows(analysis, 1)] == [
        "__flush_work",
        "cpuhp_kick_ap_work",
        "percpu_rwsem_wait",
    ]
    assert len(analysis.folded()) == 4


def test_a_worker_that_was_made_and_has_not_begun_has_nothing_to_do() -> None:
    begun = wait("kworker/1:2", 0, "schedule", "schedule_preempt_disabled", "kthread", "start_kernel_thread")
    made = wait(
        "kworker/1:2", 5_000_000, "schedule", "wait_for_completion_killable", "__kthread_create_on_node"
    )
    analysis = analyse("offcpu", begun + made)
    assert [row[-1] for row in rows(analysis)] == ["__kthread_create_on_node"]
    assert analysis.notices() == ("0.001 s in which threads had nothing to do are left out",)


def test_threads_without_stacks_are_left_out_where_others_have_them() -> None:
    others = switch("sshd-9", "S", "cpuhp/7-41", 500) + switch("cpuhp/7-41", "D", "sshd-9", 9_000)
    assert [row[0] for row in rows(analyse("offcpu", others))] == ["sshd"]
    ended = stack("cpuhp/7-41", 9_100, "schedule", "f") + switch("swapper/0-0", "R", "cpuhp/7-41", 10_000)
    assert [row[0] for row in rows(analyse("offcpu", others + ended))] == ["cpuhp/N"]


def test_trace_cmd_itself_is_not_counted() -> None:
    info = "cpu=1 callsite=a+0x1 callback=0x0"
    text = "".join(tracefiles.line(task, 0, 1, "ipi_send_cpu", info) for task in ("trace-cmd-9", "t-9"))
    assert rows(analyse("counts", text), 1) == [("IPI calls", "[reschedule]", "a", 1, 1.0)]


def test_a_wait_does_not_go_on_in_the_next_file() -> None:
    begun = switch("cpuhp/7-41", "D", "swapper/0-0", 1_000)
    ended = switch("swapper/0-0", "R", "cpuhp/7-41", 2_000)
    assert rows(analyse("offcpu", begun, ended)) == []
    assert len(rows(analyse("offcpu", begun + ended))) == 1


def test_the_kernels_own_format_is_read_as_well() -> None:
    raw = "prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120"
    text = tracefiles.line("a-5", 0, 1000, "sched_switch", raw.format("a b", 5, "D", "swapper/0", 0))
    text += tracefiles.line("<idle>-0", 0, 3000, "sched_switch", raw.format("swapper/0", 0, "R", "a b", 5))
    assert rows(analyse("offcpu", text)) == [("a b", 2e-06, 100.0, 1, 2e-06, "[no stack]")]


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=50), NAMES)
def test_blocked_time_adds_up(waits: list[int], name: str) -> None:
    analysis, ns = OffCpu(), 0
    take = analysis.handlers()["sched_switch"]
    for wait in waits:
        take(Event(b"t", 5, 0, ns, f"{name}:5 [120] D ==> swapper/0:0 [120]".encode(), b""))
        ns += wait
        take(Event(b"t", 0, 0, ns, f"swapper/0:0 [120] R ==> {name}:5 [120]".encode(), b""))
    ((_, blocked, _, number, longest, _),) = rows(analysis)
    assert blocked == pytest.approx(sum(waits) / 1e9)
    assert (number, longest) == (len(waits), max(waits) / 1e9)


def test_threads_of_all_cpus_are_one() -> None:
    names = ("cpuhp/0", "cpuhp/1919", "kworker/3:1H", "kworker/u32:2-ev", "ppc64_cpu")
    assert [thread_kind(name) for name in names] == [
        "cpuhp/N",
        "cpuhp/N",
        "kworker/N",
        "kworker/N",
        "ppc64_cpu",
    ]
    assert is_idle(("kthread", "worker_thread", "schedule", "__schedule"))
    assert not is_idle(("kthread", "worker_thread", "process_one_work", "schedule"))


# Folded stacks


OFFCPUTIME = """\
swapper/3;start_secondary;cpu_startup_entry;do_idle;schedule_idle;__schedule;finish_task_switch.isra.0 9
cpuhp/5;ret_from_kernel_thread;kthread;smpboot_thread_fn;schedule;__schedule;finish_task_switch.isra.0 70
cpuhp/5;kthread;smpboot_thread_fn;cpuhp_thread_fun;sched_cpu_deactivate;synchronize_rcu_normal;\
__wait_rcu_gp;schedule_timeout;schedule;__schedule;finish_task_switch.isra.0 3000
cpuhp/6;kthread;smpboot_thread_fn;cpuhp_thread_fun;sched_cpu_deactivate;synchronize_rcu_normal;\
__wait_rcu_gp;schedule_timeout;schedule;__schedule;finish_task_switch.isra.0 1000
ppc64_cpu;ksys_write;work_on_cpu_key;__flush_work;schedule;__schedule;finish_task_switch.isra.0 5000
sshd;[Missed Kernel Stack] 1000
"""


def fold(path: Path, *texts: str) -> tuple[Analysis, str]:
    """Analyse folded stacks, each text a file; returns what was noted on the way as well."""
    files = []
    for number, text in enumerate(texts):
        files.append(path / f"{number}.folded")
        files[-1].write_text(text)
    stream = io.StringIO()
    return analyse_files(files, None, stream), stream.getvalue()


def test_folded_stacks_of_offcputime_are_read(tmp_path: Path) -> None:
    analysis, noted = fold(tmp_path, OFFCPUTIME)
    causes, handed_on = analysis.tables(20)
    assert causes.headings == ["thread", "blocked (s)", "share (%)", "stack"]
    where = "synchronize_rcu_normal < sched_cpu_deactivate < cpuhp_thread_fun < smpboot_thread_fn < kthread"
    assert causes.rows == (("cpuhp/N", 0.004, 80.0, where), ("sshd", 0.001, 20.0, "[Missed Kernel Stack]"))
    assert handed_on.rows == (("ppc64_cpu", 0.005, 100.0, "__flush_work < work_on_cpu_key < ksys_write"),)
    assert analysis.notices() == (
        "0.000 s in which threads had nothing to do are left out",
        "0.001 s are of stacks that were not stored: record again with a larger --stack-storage-size",
    )
    assert noted == ""


def test_folded_stacks_add_up_over_files_and_odd_lines_are_told(tmp_path: Path) -> None:
    analysis, noted = fold(tmp_path, "a;f 5\n\nwhat is this\na;f -5\n", "a;f 6\nb;f 7")
    assert analysis.folded() == {("a", "f"): 11}
    assert "0.folded:3: not a folded stack; 2 such left out" in noted
    assert "1.folded: the last line is cut short and was left out" in noted


def test_the_rest_of_a_line_that_is_too_long_is_no_stack(tmp_path: Path) -> None:
    analysis, noted = fold(tmp_path, f"a;f 5\n{'x' * MAX_LINE}b;f 7\n")
    assert analysis.folded() == {("a", "f"): 5}
    assert "not a folded stack; 1 such left out" in noted


def test_traces_and_folded_stacks_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="none of its 1 lines is a folded stack") as caught:
        fold(tmp_path, "a;f 5\n", switch("a-1", "D", "b-2", 1000))
    assert caught.value.code == ExitCode.INPUT
    with pytest.raises(ToolError, match="none of its 0 events is one of mode offcpu"):
        fold(tmp_path, switch("a-1", "D", "b-2", 1000), "a;f 5\n")


def test_what_trace_writes_folded_it_reads_the_same(golden: Path, tmp_path: Path) -> None:
    whole = analyse_files([golden / "trace/ppc64le-offcpu.txt"], None, io.StringIO())
    again, _ = fold(tmp_path, to_folded(whole.folded()))
    assert again.folded() == whole.folded()
    assert [len(table.rows) for table in again.tables(9)] == [len(table.rows) for table in whole.tables(9)]


# The run that docs/tutorial/slow-switch.md tells of


def recorded(root: Path, variant: str, mode: str) -> Analysis:
    return analyse_files(
        [root / f"docs/examples/switch/{variant}.smt=off.{mode}.txt.xz"], None, io.StringIO()
    )


def test_the_documented_stock_switch_waits_most_in_the_scheduler_and_in_cpuidle(root: Path) -> None:
    tops = [str(row[-1]).split(" < ")[:3] for row in rows(recorded(root, "stock", "offcpu"))[:2]]
    assert sorted(top[1:] for top in tops) == [
        ["cpuidle_pause_and_lock", "pseries_cpuidle_cpu_dead"],
        ["sched_cpu_deactivate", "cpuhp_invoke_callback"],
    ]
    frames_of_patched = {name for stack in recorded(root, "patched", "offcpu").folded() for name in stack}
    assert not {"cpuidle_pause_and_lock", "sched_cpu_deactivate"} & frames_of_patched


def test_the_documented_switches_take_14_cpus_each_by_itself_or_together(root: Path) -> None:
    calls = {
        variant: {row[0]: row[1] for row in rows(recorded(root, variant, "counts"))}
        for variant in ("stock", "patched")
    }
    assert [calls["stock"][what] for what in ("rendezvous", "domain rebuilds")] == [14, 14]
    assert [calls["patched"][what] for what in ("rendezvous", "domain rebuilds")] == [1, 1]
    takedown = next(row for row in rows(recorded(root, "patched", "states")) if row[1] == "takedown_cpu")
    _, _, times, _, total, clock, *_ = takedown
    assert times == 14
    assert float(str(clock)) < float(str(total)) / 10


# Counts and graph


def test_counts_are_per_transition_and_by_caller() -> None:
    def call(name: str, info: str) -> str:
        return tracefiles.line("t-1", 0, 1, name, info)

    one = call("function", "synchronize_rcu <-- sched_cpu_deactivate") * 3
    two = call("function", "stop_machine_cpuslocked <-- takedown_cpu")
    ipis = "".join(
        call("ipi_send_cpu", f"cpu={cpu} callsite=generic_exec_single+0x1c/0x2 callback=f+0x0/0x1")
        for cpu in range(4)
    )
    analysis = analyse("counts", one + two, one + ipis)
    totals = {str(row[0]): row[1:] for row in rows(analysis)}
    assert totals["grace-period waits"] == (6, 3.0)
    assert totals["rendezvous"] == (1, 0.5)
    assert totals["IPI calls"] == (4, 2.0)
    assert rows(analysis, 1) == [
        ("grace-period waits", "synchronize_rcu", "sched_cpu_deactivate", 6, 3.0),
        ("rendezvous", "stop_machine_cpuslocked", "takedown_cpu", 1, 0.5),
        ("IPI calls", "f", "generic_exec_single", 4, 2.0),
    ]
    assert analysis.folded()["sched_cpu_deactivate", "synchronize_rcu"] == 6


def test_graph_gives_each_function_its_own_time() -> None:
    lines = (
        ("funcgraph_entry", "                  |  outer() {"),
        ("funcgraph_entry", "      0.500 us   |    leaf();"),
        ("funcgraph_entry", "                  |    inner() {"),
        ("funcgraph_exit", "    ! 100.000 us |    }"),
        ("funcgraph_exit", "    # 2000.500 us |  }"),
        ("funcgraph_exit", "    # 2000.500 us |  }"),
    )
    text = "".join(tracefiles.line("cpuhp/7-41", 7, at, *pair) for at, pair in enumerate(lines))
    analysis = analyse("graph", text)
    assert rows(analysis) == [
        ("outer", 1, 0.0019, 0.0020005, 0.0020005),
        ("inner", 1, 0.0001, 0.0001, 0.0001),
        ("leaf", 1, 5e-07, 5e-07, 5e-07),
    ]
    assert analysis.folded()["cpuhp/N", "outer", "inner"] == 100
    assert analysis.notices() == ("1 calls lack their beginning or end in the trace and were left out",)


# Pictures and tables


STACKS: st.SearchStrategy[Folded] = st.dictionaries(
    st.lists(
        st.text(max_size=20).map(lambda text: readable(text.encode(errors="replace"))), min_size=1, max_size=6
    ).map(tuple),
    st.integers(0, 10**9),
    max_size=20,
)


@given(STACKS, st.text(max_size=20).map(lambda text: readable(text.encode(errors="replace"))))
def test_every_picture_is_well_formed_and_described(folded: Folded, title: str) -> None:
    root = parse_svg(to_svg(folded, title, "calls"))
    ids = [root.find(f"{SVG}{name}").get("id") for name in ("title", "desc")]  # type: ignore[union-attr]
    assert [root.get("aria-labelledby"), root.get("aria-describedby")] == ids
    width = float(str(root.get("viewBox")).split()[2])
    for box in root.iter(f"{SVG}g"):
        shape = box.find(f"{SVG}rect")
        assert shape is not None
        assert 0 <= float(str(shape.get("x"))) <= width
        assert float(str(shape.get("x"))) + float(str(shape.get("width"))) <= width
        assert box.find(f"{SVG}title") is not None


def test_hostile_names_stay_text() -> None:
    svg = to_svg({("<script>alert(1)</script>", 'a"&b'): 5}, "<b>", "calls")
    assert "<script" not in svg
    assert parse_svg(svg).find(f".//{SVG}script") is None


def test_a_box_is_as_wide_as_its_share() -> None:
    root = parse_svg(to_svg({("a", "b"): 30, ("a", "c"): 10, ("d",): 60}, "t", "calls"))
    wide = {
        str(box.findtext(f"{SVG}title")).partition(":")[0]: float(str(box.find(f"{SVG}rect").get("width")))  # type: ignore[union-attr]
        for box in root.iter(f"{SVG}g")
    }
    assert wide["a"] / wide["d"] == pytest.approx(40 / 60, rel=0.01)
    assert wide["b"] / wide["c"] == pytest.approx(3, rel=0.01)


def luminance(red: float, green: float, blue: float) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(st.text(max_size=30))
def test_text_has_contrast_on_every_box(name: str) -> None:
    import colorsys  # noqa: PLC0415

    found = re.fullmatch(r"hsl\((\d+),(\d+)%,(\d+)%\)", _colour(name))
    assert found is not None
    hue, saturation, lightness = (int(text) for text in found.groups())
    box = luminance(*colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100))
    ink = luminance(0x11 / 255, 0x11 / 255, 0x11 / 255)
    assert (box + 0.05) / (ink + 0.05) >= 7


@given(STACKS)
def test_folded_lines_have_their_frames_and_weight(folded: Folded) -> None:
    lines = to_folded(folded).split("\n")
    assert lines.pop() == ""
    kept = {stack: weight for stack, weight in folded.items() if weight}
    assert len(lines) == len(kept)
    assert sorted(len(line.rpartition(" ")[0].split(";")) for line in lines) == sorted(map(len, kept))
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == sum(kept.values())


def test_every_format_has_every_row() -> None:
    text = "".join(line for line, _ in zip(tracefiles.states_lines(), range(60), strict=False))
    sheet = analyse("states", text).sheet(100)
    data = json.loads(to_json(sheet))
    assert [len(data[name]) for name in ("states", "cpus")] == [3, 30]
    assert len(to_csv(sheet).splitlines()) == 1 + 33
    assert to_markdown(sheet).count("\n| ") == 33 + 2 * 2
    assert "sched_cpu_deactivate" in to_markdown(sheet)


# The command


@pytest.mark.parametrize("mode", ["states", "offcpu"])
def test_the_mode_shows_and_every_output_is_written(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, folded, svg = (tmp_path / name for name in ("t.txt", "t.folded", "t.svg"))
    tracefiles.write(trace, mode, 900)
    assert find_mode(trace) == mode
    arguments = [
        "trace",
        str(trace),
        "--top",
        "1",
        "--format",
        "csv",
        "--folded",
        str(folded),
        "--svg",
        str(svg),
    ]
    assert cli.main(arguments) == ExitCode.OK
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == (3 if mode == "states" else 2)
    assert len(folded.read_text().splitlines()) == 3
    parse_svg(svg.read_text())


def test_a_table_is_not_wrapped_in_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "t.txt"
    tracefiles.write(trace, "offcpu", 9)
    assert cli.main(["trace", str(trace)]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all("synchronize_rcu" in line or "stop_machine" in line for line in lines[2:])


@pytest.mark.parametrize(
    ("text", "arguments", "code", "words"),
    [
        ("hello\n", [], ExitCode.INPUT, "no event of a known mode"),
        ("", [], ExitCode.INPUT, "no event of a known mode"),
        ("cpus=1\n a-1 [000] 1.000000: e: x\n", ["--mode", "states"], ExitCode.INPUT, "none of its 1 events"),
        (None, [], ExitCode.INPUT, "cannot read"),
        ("hello\n", ["--top", "0"], ExitCode.USAGE, "--top: '0' is not"),
    ],
)
def test_faults_are_one_line(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    *,
    text: str | None,
    arguments: list[str],
    code: ExitCode,
    words: str,
) -> None:
    path = tmp_path / "t.txt"
    if text is not None:
        path.write_text(text)
    assert cli.main(["trace", str(path), *arguments]) == code
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("hotplug-timer: error: ")
    assert words in last


@pytest.fixture
def trace_cmd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make a trace.dat, and a trace-cmd that runs the given Python line to report it."""

    def make(line: str) -> Path:
        program = tmp_path / "bin" / "trace-cmd"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nimport sys\n{line}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))
        path = tmp_path / "-t.dat"
        path.write_bytes(MAGIC + os.urandom(100))
        return path

    return make


def test_a_trace_dat_is_read_through_trace_cmd(
    trace_cmd: Callable[[str], Path], golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = golden / "trace" / "all-modes.txt"
    path = trace_cmd(
        "assert sys.argv[1:5] == ['report', '-t', '-O', 'parent'] and sys.argv[6].startswith('/')\n"
        f"sys.stdout.write(open({str(text)!r}).read())"
    )
    assert cli.main(["trace", "--mode", "states", "--", str(path)]) == ExitCode.OK
    assert "sched_cpu_deactivate" in capsys.readouterr().out


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_text_is_read(
    compress: Callable[[bytes], bytes], golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (golden / "trace/all-modes.txt").read_bytes()
    path = tmp_path / "t.txt.gz"
    path.write_bytes(compress(whole))
    assert cli.main(["trace", "--mode", "states", str(path)]) == ExitCode.OK
    assert "sched_cpu_deactivate" in capsys.readouterr().out
    path.write_bytes(compress(whole)[:-20])
    assert cli.main(["trace", "--mode", "states", str(path)]) == ExitCode.INPUT
    assert "cannot read" in capsys.readouterr().err.splitlines()[-1]


def test_a_trace_dat_that_trace_cmd_refuses_is_said(
    trace_cmd: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_cmd("sys.stderr.write('bad magic\\n'); sys.exit(1)")
    assert cli.main(["trace", "--mode", "states", str(path)]) == ExitCode.INPUT
    assert "trace-cmd report exited with status 1: bad magic" in capsys.readouterr().err


def test_without_trace_cmd_a_trace_dat_is_an_environment_fault(
    trace_cmd: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_cmd("")
    (tmp_path / "bin" / "trace-cmd").unlink()
    assert cli.main(["trace", "--mode", "states", str(path)]) == ExitCode.ENVIRONMENT
    assert "trace-cmd is not installed here" in capsys.readouterr().err


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    peaks = []
    for events in (3_000, 60_000):
        trace = tmp_path / f"{events}.txt"
        tracefiles.write(trace, "offcpu", events)
        code = (
            "import resource, sys; from hotplug_timer import cli; cli.main(sys.argv[1:]);"
            " print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "trace", str(trace)], check=True, capture_output=True, text=True
        )
        peaks.append(int(done.stdout.split()[-1]))
    assert peaks[1] < peaks[0] + 2_000
