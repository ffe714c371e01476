"""What the guest's scripts read from the kernel, on texts as the kernel writes them."""

import os
import sys
from pathlib import Path

import pytest

from hotplug_host.sysfs import Sysfs
from kernel_qualify.guest import machine
from tests import GOLDEN

VERSION_16 = """\
version 16
timestamp 4294939999
cpu0 0 0 0 0 0 0 1 2 3
domain0 00ff 12 0 0 0
domain1 ffff 15 0 0 0
cpu8 0 0 0 0 0 0 1 2 3
domain0 ff00 12 34 0 0
cpu9 0 0 0 0 0 0 1 2 3
"""
VERSION_17 = VERSION_16.replace("version 16", "version 17").replace("domain0 ", "domain0 SMT ")
VERSION_17 = VERSION_17.replace("domain1 ", "domain1 PKG ")


@pytest.mark.parametrize("text", [VERSION_16, VERSION_17])
def test_domains_of_either_version(text: str) -> None:
    low, high, every = list(range(8)), list(range(8, 16)), list(range(16))
    assert machine.spans_in(text) == {"0": [low, every], "8": [high], "9": []}


@pytest.mark.parametrize(
    ("version", "realtime"),
    [
        ("#1 SMP PREEMPT_RT Thu Jan  1 00:00:00 UTC 1970", True),
        ("#1 SMP PREEMPT Thu Jan  1 00:00:00 UTC 1970", False),
        ("#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1", False),
    ],
)
def test_preempt_rt_is_told_by_the_version(
    version: str, realtime: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = os.uname_result(("Linux", "guest", "6.12.118", version, "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: names)
    assert machine.realtime() == realtime


def test_masks() -> None:
    assert machine.mask("00000001,00000003") == [0, 1, 32]


def test_secondaries_are_all_but_the_first_thread_of_each_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x86-64 numbers siblings apart; the order is that in which `off` takes them down."""
    cpus = tmp_path / "sys/devices/system/cpu"
    for cpu in range(4):
        (cpus / f"cpu{cpu}/topology").mkdir(parents=True)
        siblings = f"{cpu % 2},{cpu % 2 + 2}\n"
        (cpus / f"cpu{cpu}/topology/thread_siblings_list").write_text(siblings)
    for name in ("possible", "present", "online"):
        (cpus / name).write_text("0-3\n")
    monkeypatch.setattr(machine, "HOST", Sysfs(tmp_path))
    assert machine.present() == machine.online() == [0, 1, 2, 3]
    assert machine.cores() == [[0, 2], [1, 3]]
    assert machine.secondaries() == [2, 3]


def test_the_rendezvous_of_a_change_of_clocks_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest on a busy host left the TSC in the middle of a switch."""
    for name in ("set_ftrace_filter", "function_profile_enabled"):
        (tmp_path / name).touch()
    (tmp_path / "trace_stat").mkdir()

    def profile(cpu: int, **calls: int) -> None:
        lines = [f"  {name}   {hits}    12.5 us     12.5 us     0.000 us" for name, hits in calls.items()]
        head = "  Function     Hit    Time            Avg             s^2\n  --------     ---    ----\n"
        (tmp_path / f"trace_stat/function{cpu}").write_text(head + "\n".join(lines) + "\n")

    monkeypatch.setattr(machine, "TRACING", tmp_path)
    monkeypatch.setattr(machine, "SETTLE_S", 0)
    profile(0, stop_machine_cpuslocked=2, change_clocksource=1)
    counter = machine.Rendezvous()
    profile(0, stop_machine_cpuslocked=5, change_clocksource=1, kfree=9)
    profile(1, change_clocksource=1)
    assert counter.count() == 2


def test_a_kernel_that_cannot_count_is_no_kernel_without_rendezvous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's configuration has no profile of functions, and each count of it was 0."""
    (tmp_path / "set_ftrace_filter").touch()
    monkeypatch.setattr(machine, "TRACING", tmp_path)
    with pytest.raises(SystemExit, match="CONFIG_FUNCTION_PROFILER"):
        machine.Rendezvous()


def test_pieces_of_chunks_are_added_up() -> None:
    line = (
        "  kworker/0:1-12  [000] ..... 100.1: cpuhp_bulk_chunk: down cpus: 0001-0015 asked: 14 done: 14"
        " fallback: no ret: 0"
        " ns: lock 1000 callbacks 2000 domains 3000 deactivate 4000 takedown 5000 dead 6000\n"
    )
    text = f"# tracer: nop\n{line}{line.replace('takedown 5000', 'takedown 7000')}"
    names = ("lock", "callbacks", "domains", "deactivate", "takedown", "dead")
    each = zip(names, (2e-6, 4e-6, 6e-6, 8e-6, 12e-6, 12e-6), strict=True)
    assert machine.pieces_in(text) == pytest.approx(dict(each))
    assert machine.pieces_in("# tracer: nop\n") == {}


def test_why_cpus_went_one_by_one_is_told_beside_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "TRACING", tmp_path)
    monkeypatch.setattr(machine, "CHUNK_EVENT", tmp_path)
    (tmp_path / "trace").write_text("")
    stopwatch = machine.Pieces()
    (tmp_path / "trace").write_text((GOLDEN / "hotplug_timer/bulk_trace/serial.txt").read_text())
    assert stopwatch.taken()["takedown"] > 0
    assert len(stopwatch.serially) == 1
    assert (tmp_path / "trace").read_text() == ""


@pytest.mark.parametrize(("console", "levels"), [(True, [5, "8"]), (False, [])])
def test_messages_come_into_no_record_on_a_console(
    console: bool, levels: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    printk = tmp_path / "printk"
    printk.write_text("8\t4\t1\t7\n")
    written: list[object] = []
    monkeypatch.setattr(machine, "PRINTK", printk)
    monkeypatch.setattr(machine, "write", lambda _, value: written.append(value))
    ours, theirs = os.openpty() if console else os.pipe()
    with os.fdopen(ours, closefd=True) as reader, os.fdopen(theirs, "w") as writer:
        monkeypatch.setattr(sys, "stdout", writer)
        machine.record("end", online=[0])
        assert reader.readline().rstrip() == '{"kind": "end", "online": [0]}'
    assert written == levels
