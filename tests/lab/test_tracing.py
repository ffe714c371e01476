"""What `run --trace` records of real kernels, and what `trace` finds in it: stock against patched."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.tables import to_json
from hotplug_host.cpulist import parse_cpulist
from hotplug_host.errors import ExitCode
from hotplug_host.timing.tracing import COUNTS, OFFCPU, STATES
from hotplug_timer.compare.comparison import compare
from hotplug_timer.predict.command import look_out
from hotplug_timer.reader import read_files
from hotplug_timer.trace.command import analyse
from hotplug_timer.trace.model import Analysis
from tests.lab.labtools import Lab

# Kernels and base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(3600)]

# With half as many, what a CPU spends between its callbacks and the next one's is a tenth of a stock switch.
SHAPE = ("--cores", "2", "--threads", "8")
GOING = parse_cpulist("1-7,9-15")
MODES = (COUNTS, STATES, OFFCPU)
TIMER = "python3 hotplug-timer.pyz run smt=off --iterations 1 --warmup 0 --count-iterations 0 --settle 0"
TRACING = "/sys/kernel/tracing"
OWN = "sched:sched_process_exec"
#: A setting of the operator's own, in buffers of the operator's size, that no recording may change.
PREPARE = f"cd {TRACING} && echo 2000 > buffer_size_kb && echo {OWN} > set_event"
SETTINGS = (
    "tracing_on current_tracer set_event set_ftrace_filter set_ftrace_pid set_graph_function max_graph_depth"
    " buffer_size_kb function_profile_enabled"
)
ASK = f"cd {TRACING} && grep . {SETTINGS}; ls instances"
#: cpuidle_uninstall_idle_handler(), which waits, ends with a call: the wait's stack has its caller only.
IN_CPUIDLE = {"cpuidle_uninstall_idle_handler", "cpuidle_pause_and_lock"}


@dataclass(frozen=True)
class Traced:
    """A guest's run with its traces as text, and what the guest's tracing was set to before and after."""

    guest: str
    result: Path
    texts: Mapping[str, Path]
    before: str
    after: str

    def analysis(self, mode: str) -> Analysis:
        """Return what `trace` makes of a mode's trace."""
        return analyse([self.texts[mode]], mode, io.StringIO())

    def tables(self, mode: str) -> dict[str, list[dict[str, Any]]]:
        """Return the tables that `trace --format json` prints of a mode's trace."""
        tables: dict[str, list[dict[str, Any]]] = json.loads(to_json(self.analysis(mode).sheet(10_000)))
        return tables

    def seconds(self, mode: str) -> float:
        """Return how long the traced switch took."""
        (trace,) = [trace for trace in traces(self.result.read_text()) if trace["mode"] == mode]
        return float(trace["seconds"])


def traces(text: str) -> list[dict[str, Any]]:
    """What a result file says of its traced switches' recordings."""
    records = [json.loads(line) for line in text.splitlines()]
    return [record["detail"]["trace"] for record in records if record.get("phase") == "traced"]


@pytest.fixture(scope="module")
def traced(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Traced]]:
    found = {}
    for variant in ("stock", "patched"):
        guest, folder = f"trc-{variant}", tmp_path_factory.mktemp(variant)
        lab.must("up", guest, *SHAPE, "--variant", variant, timeout=3000)
        lab.install_timer(guest, folder)
        found[variant] = record(lab, guest, folder, variant)
    yield found
    lab.must("down", "--all")


def record(lab: Lab, guest: str, folder: Path, variant: str) -> Traced:
    """Trace one switch in every mode, and fetch what came of it."""
    lab.must("ssh", guest, "--", PREPARE)
    before = lab.must("ssh", guest, "--", ASK)
    options = [f"--variant {variant} --output {variant}.jsonl", *(f"--trace {mode}" for mode in MODES)]
    lab.must("ssh", guest, "--", TIMER, *options)
    after = lab.must("ssh", guest, "--", ASK)
    result = folder / f"{variant}.jsonl"
    result.write_text(lab.must("ssh", guest, "--", "cat", result.name))
    texts = {mode: folder / f"{variant}.smt=off.{mode}.txt" for mode in MODES}
    for text in texts.values():
        report = f"trace-cmd report -t -O parent -i {text.with_suffix('.dat').name}"
        text.write_text(lab.must("ssh", guest, "--", report))
    return Traced(guest, result, texts, before, after)


@pytest.mark.parametrize("variant", ["stock", "patched"])
def test_a_traced_switch_is_none_of_the_timed(traced: dict[str, Traced], variant: str) -> None:
    data = read_files([traced[variant].result])
    (run,) = data.runs
    assert (run.outcome, run.restored) == ("complete", True)
    phases = [(item.phase, item.status, item.seconds is None) for item in run.iterations]
    assert phases == [("timed", "ok", False)] + [("traced", "ok", True)] * len(MODES)
    (row,) = compare(data, variant).rows
    assert row.summary.n == 1
    recorded = traces(traced[variant].result.read_text())
    assert [(trace["mode"], trace["lost_events"]) for trace in recorded] == [(mode, 0) for mode in MODES]


@pytest.mark.parametrize("variant", ["stock", "patched"])
def test_recording_leaves_the_guests_own_tracing_as_it_was(traced: dict[str, Traced], variant: str) -> None:
    assert f"set_event:{OWN}" in traced[variant].before
    assert traced[variant].after == traced[variant].before


def test_counts_fall_from_one_for_each_cpu_to_one_for_all(traced: dict[str, Traced]) -> None:
    stock, patched = (
        {row["what"]: row["calls"] for row in traced[variant].tables(COUNTS)["counts"]}
        for variant in ("stock", "patched")
    )
    assert stock["grace-period waits"] >= 2 * len(GOING)
    assert stock["rendezvous"] >= len(GOING)
    assert stock["domain rebuilds"] == len(GOING)
    # Both waits that are left are for the whole switch. Others of the machine may come in between.
    assert patched["grace-period waits"] <= 4
    assert patched["rendezvous"] == patched["domain rebuilds"] == 1
    assert patched["IPI calls"] < stock["IPI calls"]


def test_costs_close_name_no_state_and_leave_the_guest_as_it_was(
    traced: dict[str, Traced], lab: Lab, tmp_path: Path
) -> None:
    guest = traced["stock"].guest
    asked = f"cat /sys/devices/system/cpu/online /sys/kernel/rcu_expedited; {ASK}"
    before = lab.must("ssh", guest, "--", asked)
    lab.must("ssh", guest, "--", "python3 hotplug-timer.pyz measure-costs --output costs.jsonl", timeout=900)
    assert lab.must("ssh", guest, "--", asked) == before
    for name in lab.must("ssh", guest, "--", "ls costs*").split():
        (tmp_path / name).write_text(lab.must("ssh", guest, "--", f"cat '{name}'"))
    found, notices = look_out(tmp_path / "costs.jsonl", None, 64)
    assert notices == []
    assert found.hindering == ()
    assert (found.size.cpus, found.size.toggled) == (16, 14)
    off, on = found.costs
    assert off.switched == on.switched == 8
    assert off.turn > 0
    assert off.gather >= 0
    assert 0 < off.expedited < off.grace
    # No crash kernel is loaded: its callback, which only CPUs that come on have, returns at once.
    assert off.crash == 0
    assert 0 < on.crash < 0.0001


@pytest.mark.parametrize("variant", ["stock", "patched"])
def test_states_are_those_of_every_cpu_that_went(traced: dict[str, Traced], variant: str) -> None:
    tables, seconds = traced[variant].tables(STATES), traced[variant].seconds(STATES)
    assert {row["CPU"] for row in tables["cpus"]} == GOING
    # Not even the CPU that is longest at it may have been at it for longer than the whole switch took.
    assert all(0 < row["total (s)"] <= seconds and row["callbacks"] > 20 for row in tables["cpus"])
    states = {row["callback"]: row for row in tables["states"]}
    for name in ("sched_cpu_deactivate", "takedown_cpu", "pseries_cpuidle_cpu_dead", "workqueue_offline_cpu"):
        assert states[name]["calls"] == len(GOING)
    for row in states.values():
        assert row["failed"] == 0
        assert 0 <= row["longest (s)"] <= row["by the clock (s)"] <= seconds


def test_one_by_one_the_states_are_most_of_the_stock_switch(traced: dict[str, Traced]) -> None:
    stock = traced["stock"]
    total = sum(row["total (s)"] for row in stock.tables(STATES)["cpus"])
    assert stock.seconds(STATES) / 2 < total <= stock.seconds(STATES)


def test_stock_waits_most_for_two_grace_periods_of_each_cpu(traced: dict[str, Traced]) -> None:
    first, second = traced["stock"].tables(OFFCPU)["offcpu"][:2]
    by_thread = {row["thread"]: row for row in (first, second)}
    assert set(by_thread) == {"cpuhp/N", "kworker/N"}
    assert "synchronize_rcu_normal < sched_cpu_deactivate < " in by_thread["cpuhp/N"]["stack"]
    frames = by_thread["kworker/N"]["stack"].split(" < ")
    assert frames[0] == "synchronize_rcu_normal"
    assert frames[1] in IN_CPUIDLE
    assert frames[2] == "pseries_cpuidle_cpu_dead"
    assert [row["waits"] for row in (first, second)] == [len(GOING)] * 2


def test_patched_waits_for_neither(traced: dict[str, Traced]) -> None:
    stacks = traced["patched"].analysis(OFFCPU).folded()
    assert any("work_for_cpu_fn" in stack for stack in stacks)
    assert [stack for stack in stacks if IN_CPUIDLE & set(stack)] == []
    assert [stack for stack in stacks if "sched_cpu_deactivate" in stack] == []


def test_the_kernels_one_buffer_is_not_taken_from_anybody(traced: dict[str, Traced], lab: Lab) -> None:
    done = lab.run("ssh", traced["stock"].guest, "--", TIMER, "--variant x --output x.jsonl --trace graph")
    assert done.returncode == ExitCode.ENVIRONMENT
    assert f"somebody else is tracing: {TRACING}/set_event says '{OWN}'" in done.stderr
    assert lab.must("ssh", traced["stock"].guest, "--", ASK) == traced["stock"].before


def test_lost_events_fail_the_run_and_the_kernels_own_buffer_is_put_back(
    traced: dict[str, Traced], lab: Lab
) -> None:
    folder = traced["stock"].result.parent
    guest = traced["stock"].guest
    lab.must("ssh", guest, "--", f"echo > {TRACING}/set_event")
    before = lab.must("ssh", guest, "--", ASK)
    # A graph has some thousand events of one CPU, more than the least that the kernel has room for.
    options = "--variant lossy --output lossy.jsonl --trace graph --trace-buffer 1"
    done = lab.run("ssh", guest, "--", TIMER, options)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "events; use a larger --trace-buffer" in done.stderr.splitlines()[-1]
    result = folder / "lossy.jsonl"
    result.write_text(lab.must("ssh", guest, "--", "cat lossy.jsonl"))
    assert [trace["lost_events"] > 0 for trace in traces(result.read_text())] == [True]
    (run,) = read_files([result]).runs
    assert (run.outcome, run.restored, run.iterations[-1].status) == ("failed", True, "failed")
    assert lab.must("ssh", guest, "--", ASK) == before
    assert lab.must("ssh", guest, "--", "cat /sys/devices/system/cpu/online").strip() == "0-15"
