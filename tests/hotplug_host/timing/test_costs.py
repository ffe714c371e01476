"""measure-costs: which CPUs it switches, what it records, and that it leaves the host as it was."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.keeper import kept
from hotplug_host.preflight import judge
from hotplug_host.rcu import RCU_EXPEDITED
from hotplug_host.restore import save_state
from hotplug_host.signals import StopRequest
from hotplug_host.timing import costs
from hotplug_host.timing.costs import CostSettings, last_secondary, measure_costs
from hotplug_host.topology import STATES, Topology, cpu_file, parse_states
from hotplug_timer.reader import Run, read_files
from tests.fakes.fakehost import TRACING, FakeHost, FakeSysfs

EVENTS = ("cpuhp_enter", "cpuhp_multi_enter", "cpuhp_exit")


@pytest.fixture
def host(host: FakeHost) -> FakeHost:
    """The POWER host of 2 cores x SMT4, with all that a measurement needs."""
    host.put("proc/cmdline", "root=/dev/vda")
    host.add_fqs_delays()
    host.add_tracing()
    host.put(f"{TRACING}/available_tracers", "function_graph function nop")
    names = host.get(f"{TRACING}/available_filter_functions")
    host.put(f"{TRACING}/available_filter_functions", f"{names}\ntake_cpu_down")
    for name in EVENTS:
        host.put(f"{TRACING}/events/cpuhp/{name}/enable", "0")
    host.put(STATES.lstrip("/"), "  0: offline\n  1: threads:prepare\n238: online")
    return host


@pytest.fixture
def wanted(tmp_path: Path) -> CostSettings:
    return CostSettings(None, "stock", 0.0, 20.0, "unknown", False, tmp_path / "costs.jsonl")


def measure(settings: CostSettings, fs: FakeSysfs) -> tuple[Run, ...]:
    stop = StopRequest()
    try:
        measure_costs(settings, fs, stop)
    finally:
        stop.close()
    return read_files([settings.output]).runs


@pytest.mark.slow
def test_two_runs_are_recorded_that_the_reader_accepts(host: FakeHost, wanted: CostSettings) -> None:
    plain, expedited = measure(wanted, FakeSysfs(host))
    assert (plain.rcu["rcu_expedited"], expedited.rcu["rcu_expedited"]) == ("0", "1")
    assert plain.operations == expedited.operations == ("cpus=1-3,5-7:off", "cpus=1-3,5-7:on")
    assert plain.states == {0: "offline", 1: "threads:prepare", 238: "online"}
    assert plain.online == 8
    assert [item.phase for item in plain.iterations] == ["timed"] * 6 + ["counted"] * 4
    assert [item.phase for item in expedited.iterations] == ["timed"] * 6 + ["counted"] * 2 + ["traced"] * 4
    # The processors of this machine are not those of the host that the test made.
    assert (plain.busy_slowdown, plain.lpar_mode) == (1.0, None)
    counted = next(item for item in plain.iterations if item.phase == "counted")
    assert counted.durations is not None
    assert counted.counts is not None
    assert counted.durations["stop_machine"] == pytest.approx(0.0015 * counted.counts["stop_machine"])
    assert counted.durations["take_cpu_down"] == 0.0
    assert [recording.file for recording in expedited.recordings] == [
        "costs.cpus=1-3,5-7-off.states.txt",
        "costs.cpus=1-3,5-7-on.states.txt",
    ] * 2
    for recording in expedited.recordings:
        assert (wanted.output.parent / recording.file).read_text() == "# tracer: nop\n" * 2


@pytest.mark.slow
def test_the_host_is_as_it_was(host: FakeHost, wanted: CostSettings) -> None:
    measure(wanted, FakeSysfs(host))
    assert host.online == frozenset(range(8))
    assert host.get(RCU_EXPEDITED.lstrip("/")) == "0"
    assert host.get(f"{TRACING}/function_profile_enabled") == "0"
    assert not list((host.root / TRACING / "instances").iterdir())


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda host: host.put(f"{TRACING}/available_tracers", "nop"), "CONFIG_FUNCTION_GRAPH_TRACER"),
        (lambda host: host.put(f"{TRACING}/function_profile_enabled", "1"), "is in use already"),
        (lambda host: (host.root / TRACING / "events/cpuhp/cpuhp_exit/enable").unlink(), "cpuhp"),
        (lambda host: host.put(f"{TRACING}/options/sleep-time", "0"), "leaves sleep out"),
        (lambda host: host.put(RCU_EXPEDITED.lstrip("/"), "1"), "rcu_expedited"),
    ],
)
def test_a_host_that_cannot_be_measured_is_refused_before_anything_is_switched(
    host: FakeHost, wanted: CostSettings, spoil: Callable[[FakeHost], None], words: str
) -> None:
    spoil(host)
    if words == "cpuhp":
        (host.root / TRACING / "events/cpuhp/cpuhp_exit").rmdir()
    fs = FakeSysfs(host)
    with pytest.raises(ToolError, match=words) as caught:
        measure(wanted, fs)
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert not [name for name, _ in fs.writes if name.endswith("/online")]


def test_a_host_that_preflight_refuses_is_not_switched(
    host: FakeHost, wanted: CostSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = judge.Judgement(judge.NO_GO, ())
    monkeypatch.setattr("hotplug_host.preflight.preflight.judge", lambda *_: refusal)
    with pytest.raises(ToolError, match="no-go for time"):
        measure(wanted, FakeSysfs(host))
    assert not wanted.output.exists()


def test_expedited_grace_periods_end_with_the_block_when_the_second_run_fails(
    host: FakeHost, wanted: CostSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs.Runner, "execute", _failing_second(costs.Runner.execute))
    with pytest.raises(ToolError, match="as the test wants"):
        measure(wanted, FakeSysfs(host))
    assert host.get(RCU_EXPEDITED.lstrip("/")) == "0"
    assert host.online == frozenset(range(8))


def _failing_second(execute: Callable[[object], None]) -> Callable[[object], None]:
    calls: list[int] = []

    def run(self: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ToolError("it fails", "as the test wants", ExitCode.OPERATION)
        execute(self)

    return run


@pytest.mark.parametrize(
    ("cores", "online", "chosen"),
    [
        (((0, 1, 2, 3), (4, 5, 6, 7)), range(8), {1, 2, 3, 5, 6, 7}),
        (tuple(tuple(range(core, core + 8)) for core in (0, 8, 16)), range(24), set(range(17, 24)) | {15}),
        (((0,), (1,), (2,)), range(3), {1, 2}),
        (((0, 1), (2, 3)), (0, 2), {2}),
    ],
)
def test_the_last_cpus_that_smt_off_takes_are_chosen(
    cores: tuple[tuple[int, ...], ...], online: range, chosen: set[int]
) -> None:
    every = frozenset(cpu for core in cores for cpu in core)
    topology = Topology(every, every, frozenset(online), cores, len(cores[0]), frozenset())
    assert last_secondary(topology) == chosen


def test_a_host_with_one_cpu_is_refused() -> None:
    one = frozenset({0})
    with pytest.raises(ToolError, match="only one CPU"):
        last_secondary(Topology(one, one, one, ((0,),), 1, frozenset()))


@pytest.mark.parametrize("killed", [True, False])
def test_cpus_come_back_when_the_tool_is_killed_and_not_else(host: FakeHost, killed: bool) -> None:
    fs = FakeSysfs(host)
    child = os.fork()
    if child == 0:
        try:
            with kept(fs, save_state(fs), {}, 20.0):
                fs.write(cpu_file(7), "0")
                if killed:
                    os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) is killed
    deadline = time.monotonic() + 20
    while killed and host.online != frozenset(range(8)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert host.online == frozenset(range(8 if killed else 7))


def test_states_are_read_as_the_kernel_lists_them() -> None:
    text = "  0: offline\n 41: slub:dead\n140: \n199: perf/x86:online\n"
    assert parse_states(text) == {"0": "offline", "41": "slub:dead", "199": "perf/x86:online"}


@given(st.dictionaries(st.integers(0, 999), st.from_regex(r"[a-z/]{1,9}:[a-z]{1,6}", fullmatch=True)))
def test_all_states_of_a_list_are_read(states: dict[int, str]) -> None:
    text = "\n".join(f"{step:3}: {name}" for step, name in states.items())
    assert parse_states(text) == {str(step): name for step, name in states.items()}


@given(st.text())
def test_any_text_can_be_read_for_states(text: str) -> None:
    assert all(step.isdecimal() and name for step, name in parse_states(text).items())
