import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.timing.eventtrace import parse_losses
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.recorder import LEAST_KB, MOST_KB, TOTAL_KB, default_buffer_kb, prepare_recorder
from hotplug_host.timing.tracing import (
    MODES,
    describe_overhead,
    graph_arguments,
    offcpu_arguments,
)
from hotplug_timer.compare.comparison import compare
from hotplug_timer.reader import read_files
from tests.fakes.fakehost import TRACING, FakeHost, FakeSysfs

Execute = Callable[..., str]
INSTANCE = f"{TRACING}/instances/hotplug-timer-trace"


@pytest.fixture
def use_trace_cmd(monkeypatch: pytest.MonkeyPatch, host: FakeHost) -> Callable[..., None]:
    """Install the fake trace-cmd and leave nothing else on PATH."""

    def install(**behaviour: object) -> None:
        monkeypatch.setenv("PATH", str(host.add_trace_cmd(**behaviour)))  # type: ignore[arg-type]

    return install


def calls(host: FakeHost) -> list[list[str]]:
    return [json.loads(line) for line in host.get_or("trace-cmd.log").splitlines()]


def records(path: Path, phase: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in found if record.get("phase") == phase]


@pytest.mark.slow
def test_a_traced_iteration_comes_last_and_is_none_of_the_timed(
    execute: Execute, host: FakeHost, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd(text="trace")
    printed = execute(traces=("states", "offcpu"), count_iterations=1)
    traced = records(settings.output, "traced")
    assert [(record["operation"], record["index"]) for record in traced] == [
        ("smt=off", 1),
        ("smt=on", 1),
        ("smt=off", 2),
        ("smt=on", 2),
    ]
    last = [json.loads(line) for line in settings.output.read_text().splitlines()][-5:-1]
    assert last == traced
    for record in traced:
        detail = record["detail"]
        assert isinstance(detail, dict)
        assert (record["seconds"], detail["counts"], detail["counter"]) == (None, None, None)
        trace = detail["trace"]
        assert isinstance(trace, dict)
        assert trace["seconds"] > 0
        assert trace["lost_events"] == 0
        assert settings.output.with_name(trace["file"]).read_text() == "trace"
    data = read_files([settings.output])
    comparison = compare(data, "stock")
    assert {row.summary.n for row in comparison.rows} == {settings.iterations}
    assert re.search(r"smt=off took \d.\d{3} s with tracing, [+-]\d+% against the median of 2 timed", printed)
    assert not host.has(INSTANCE)


def test_recording_surrounds_the_switch_and_nothing_else(
    execute: Execute, host: FakeHost, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    execute(traces=("states",), trace_buffer_kb=123)
    first = calls(host)[:4]
    assert [(call[0], call[-1]) for call in first] == [
        ("start", "online 0-7"),
        ("stop", "online 0,4"),
        ("extract", "online 0,4"),
        ("reset", "online 0,4"),
    ]
    assert first[0][1:5] == ["-B", "hotplug-timer-trace", "-b", "123"]
    assert first[0][5:-1] == [
        "-e",
        "cpuhp:cpuhp_enter",
        "-e",
        "cpuhp:cpuhp_multi_enter",
        "-e",
        "cpuhp:cpuhp_exit",
    ]
    assert first[3][1:-1] == ["-B", "hotplug-timer-trace", "-d"]


def test_lost_events_fail_the_run(
    execute: Execute, host: FakeHost, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd(lost=7)
    with pytest.raises(ToolError, match="the trace lost 7 events; use a larger --trace-buffer") as caught:
        execute(traces=("counts",))
    assert caught.value.code == ExitCode.ENVIRONMENT
    (record,) = records(settings.output, "traced")
    assert (record["status"], record["error"]) == ("failed", "the trace lost 7 events")
    assert record["detail"]["trace"]["lost_events"] == 7  # type: ignore[index]
    read_files([settings.output])
    assert host.online == frozenset(range(8))
    assert not host.has(INSTANCE)


@pytest.mark.parametrize("command", ["start", "stop", "extract"])
def test_a_trace_cmd_that_fails_ends_the_run_with_everything_put_back(
    execute: Execute, host: FakeHost, use_trace_cmd: Callable[..., None], command: str
) -> None:
    use_trace_cmd(refuse=command)
    with pytest.raises(ToolError, match=rf"cannot trace: .*trace-cmd {command} .*busy") as caught:
        execute(traces=("states",))
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert host.online == frozenset(range(8))
    assert not host.has(INSTANCE)


def test_counts_asks_for_what_the_kernel_has(
    execute: Execute, host: FakeHost, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    host.put(f"{TRACING}/events/ipi/ipi_send_cpu/enable", "0")
    execute(traces=("counts",))
    start = calls(host)[0]
    assert start[start.index("-p") + 1] == "function"
    assert {start[at + 1] for at, word in enumerate(start) if word == "-l"} == {
        "synchronize_rcu",
        "synchronize_rcu_expedited",
        "stop_machine_cpuslocked",
        "partition_sched_domains_locked",
    }
    assert [start[at + 1] for at, word in enumerate(start) if word == "-e"] == ["ipi:ipi_send_cpu"]


def test_graph_is_of_one_cpus_threads_and_puts_the_kernels_own_buffer_back(
    execute: Execute, host: FakeHost, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    fs = FakeSysfs(host)
    execute(fs, traces=("graph",))
    start = calls(host)[0]
    assert "-B" not in start
    assert [start[at + 1] for at, word in enumerate(start) if word == "-P"] == ["41", "42"]
    assert (f"/{TRACING}/buffer_size_kb", "1408") in fs.writes
    assert (f"/{TRACING}/set_ftrace_pid", "") in fs.writes
    assert (f"/{TRACING}/max_graph_depth", "0") in fs.writes


def test_graph_leaves_another_tracer_alone(
    execute: Execute, host: FakeHost, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    host.put(f"{TRACING}/current_tracer", "function")
    with pytest.raises(ToolError, match=r"somebody else is tracing: .*current_tracer says 'function'"):
        execute(traces=("graph",))
    assert calls(host) == []
    assert not settings.output.exists()


def test_what_a_killed_run_left_is_removed_first(
    execute: Execute, host: FakeHost, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    host.put(f"{INSTANCE}/tracing_on", "1")
    execute(traces=("states",))
    assert [call[0] for call in calls(host)[:2]] == ["reset", "start"]


@pytest.mark.parametrize(
    ("mode", "gone", "words"),
    [
        ("states", "events/cpuhp/cpuhp_exit", "no events cpuhp/cpuhp_exit"),
        ("offcpu", "events/sched/sched_switch", "no events sched/sched_switch"),
        ("counts", "available_filter_functions", "cannot trace partition_sched_domains_locked"),
        ("graph", "available_tracers", "no tracer function_graph"),
    ],
)
def test_a_kernel_that_lacks_something_is_told_before_anything_is_switched(
    execute: Execute,
    host: FakeHost,
    use_trace_cmd: Callable[..., None],
    *,
    mode: str,
    gone: str,
    words: str,
) -> None:
    use_trace_cmd()
    path = host.root / TRACING / gone
    if path.is_dir():
        path.rename(path.with_name("other"))
    else:
        path.write_text("")
    with pytest.raises(ToolError, match=rf"--trace {mode}: .*{words}") as caught:
        execute(traces=(mode,))
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert calls(host) == []


def test_without_trace_cmd_nothing_is_begun(
    execute: Execute, host: FakeHost, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(host.root))
    with pytest.raises(ToolError, match="trace-cmd is not installed"):
        execute(traces=("states",))
    assert not settings.output.exists()


def test_a_trace_is_not_overwritten(
    execute: Execute, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    path = settings.output.with_name("out.smt=on.states.dat")
    path.write_text("precious")
    with pytest.raises(ToolError, match=r"out\.smt=on\.states\.dat exists") as caught:
        execute(traces=("states",))
    assert caught.value.code == ExitCode.USAGE
    assert path.read_text() == "precious"


@pytest.mark.slow
def test_a_run_that_was_resumed_traces_what_is_missing(
    execute: Execute, host: FakeHost, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    execute(traces=("states",))
    kept = [line for line in settings.output.read_text().splitlines() if '"traced"' not in line]
    settings.output.write_text("".join(f"{line}\n" for line in kept))
    printed = execute(traces=("states",), resume=True)
    assert len(records(settings.output, "traced")) == 2
    assert "nothing was timed in this run to hold that against" in printed
    with pytest.raises(ToolError, match=r'--trace was \["states"\], is \["offcpu"\]'):
        execute(traces=("offcpu",), resume=True)


def test_colons_are_not_in_file_names(
    execute: Execute, settings: Settings, use_trace_cmd: Callable[..., None]
) -> None:
    from hotplug_host.timing.cycle import parse_operations  # noqa: PLC0415

    use_trace_cmd()
    execute(traces=("states",), operations=parse_operations(["cpus=6-7"]), via="cpu-online")
    assert settings.output.with_name("out.cpus=6-7-off.states.dat").exists()


def test_room_is_looked_for_beforehand(
    host: FakeHost, tmp_path: Path, use_trace_cmd: Callable[..., None]
) -> None:
    use_trace_cmd()
    host.put("proc/meminfo", "MemTotal:  4000000 kB\nMemAvailable:  1000000 kB")
    with pytest.raises(ToolError, match="more than half of the 976 MiB of memory that are free"):
        prepare_recorder(FakeSysfs(host), ("states",), 8, 100_000, tmp_path)
    with pytest.raises(ToolError, match=r"may need \d+ MiB in .* are free"):
        host.put("proc/meminfo", f"MemAvailable: {10**15} kB")
        prepare_recorder(FakeSysfs(host), ("states",), 8, 10**12, tmp_path)
    host.put("proc/meminfo", "MemAvailable:  1000000 kB")
    assert prepare_recorder(FakeSysfs(host), ("states",), 100, None, tmp_path).buffer_kb == 2500


@given(st.integers(1, 4096), st.none() | st.integers(0, 2**34))
def test_default_buffers_are_capped(cpus: int, available: int | None) -> None:
    size = default_buffer_kb(cpus, available)
    assert LEAST_KB <= size <= MOST_KB
    assert size == LEAST_KB or size * cpus <= TOTAL_KB
    assert size == LEAST_KB or available is None or size * cpus <= available / 4


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("entries: 9\noverrun: 0\ncommit overrun: 0\nbytes: 36\ndropped events: 0\nread events: 129", 0),
        ("entries: 9\noverrun: 5\ncommit overrun: 2\nbytes: 36\ndropped events: 1\nread events: 129", 8),
        ("", 0),
        ("overrun: many\n: \nno colon", 0),
    ],
)
def test_losses_are_summed(text: str, lost: int) -> None:
    assert parse_losses(text) == lost


@given(st.text())
def test_any_stats_text_is_read(text: str) -> None:
    assert parse_losses(text) >= 0


@given(st.text(max_size=30))
def test_no_writers_name_gets_out_of_its_quotes(writer: str) -> None:
    arguments = offcpu_arguments(writer)
    for text in (arguments[arguments.index("-f") + 1], arguments[arguments.index("-R") + 1]):
        bare = re.sub(r'"[^"]*"', "", text)
        assert re.fullmatch(r"(?:stacktrace if prev_state != 0 && )?[()|~ a-z_]*", bare)


def test_overhead_says_what_it_is_held_against() -> None:
    assert describe_overhead(1.5, [1.0, 9.0, 1.0]).startswith("took 1.500 s with tracing, +50%")
    assert "nothing was timed" in describe_overhead(1.5, [])


def test_every_thread_is_named() -> None:
    assert graph_arguments((3, 4))[-4:] == ["-P", "3", "-P", "4"]
    assert MODES == ("counts", "states", "offcpu", "graph")
