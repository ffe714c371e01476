import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.timing.bulktrace import parse_trace
from hotplug_host.timing.counters import (
    SETTLE_S,
    SETTLE_TRIES,
    CounterWithChunks,
    FunctionProfileCounter,
    KprobeCounter,
    choose_counter,
    parse_filter,
    parse_function_stat,
    parse_function_times,
    parse_kprobe_profile,
    subtract,
)
from tests.fakes.fakehost import TRACING, FakeHost, FakeSysfs

PARSERS = {
    "trace_stat": parse_function_stat,
    "kprobe_profile": parse_kprobe_profile,
    "set_ftrace_filter": parse_filter,
    "bulk_trace": parse_trace,
}
#: The fake host's costs of smt=off with 2 cores x SMT4: six CPUs go.
OFF_BY_PROFILER = {
    "synchronize_rcu": 18,
    "stop_machine": 6,
    "domain_rebuild": 6,
    "synchronize_rcu_expedited": 0,
}
OFF_BY_KPROBES = {**OFF_BY_PROFILER, "synchronize_rcu": 12}


@pytest.mark.parametrize("kind", PARSERS)
def test_golden_texts(golden: Path, kind: str) -> None:
    cases = sorted((golden / kind).glob("*.txt"))
    assert len(cases) >= 2
    for case in cases:
        assert PARSERS[kind](case.read_text()) == json.loads(case.with_suffix(".json").read_text()), case


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("cpu0", {"stop_machine_cpuslocked": 4.818516, "synchronize_rcu": 0.7928845}),
        ("cpu3", {"synchronize_rcu": 0.03461591, "partition_sched_domains_locked": 0.000635028}),
        ("empty", {}),
        ("plain", {}),
    ],
)
def test_durations_are_those_of_the_profiler_in_seconds(
    golden: Path, name: str, seconds: dict[str, float]
) -> None:
    found = parse_function_times((golden / f"trace_stat/{name}.txt").read_text())
    assert found == pytest.approx(seconds)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,30}", fullmatch=True),
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**12)),
    )
)
def test_a_profile_is_read_whatever_its_numbers(calls: dict[str, tuple[int, int]]) -> None:
    text = "\n".join(
        f"  {name:<30}  {hits:>10}    {time / 1000:.3f} us      {1.0} us     0.000 us"
        for name, (hits, time) in calls.items()
    )
    assert parse_function_stat(text) == {name: hits for name, (hits, _) in calls.items()}
    assert parse_function_times(text) == pytest.approx(
        {name: time / 1e9 for name, (_, time) in calls.items()}
    )


def test_a_kernel_that_only_counts_gives_no_durations(host: FakeHost) -> None:
    host.add_tracing()
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        host.write_control("off")
        assert counter.read()["stop_machine"] == 6
        assert counter.read_durations() == {}


def test_durations_without_sleep_are_none(host: FakeHost) -> None:
    host.add_tracing()
    host.put(f"{TRACING}/available_tracers", "function_graph nop")
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        host.write_control("off")
        assert counter.read_durations()["stop_machine"] == pytest.approx(6 * 0.0015)
        host.put(f"{TRACING}/options/sleep-time", "0")
        assert counter.read_durations() == {}


def tracing_state(host: FakeHost) -> dict[str, str]:
    """Return every tracing file but those that hold the counts themselves."""
    return {
        str(path.relative_to(host.root)): path.read_text()
        for path in (host.root / TRACING).rglob("*")
        if path.is_file() and not re.search(r"trace_stat|kprobe_profile", str(path))
    }


def put_filter(host: FakeHost, text: str) -> None:
    host.put(f"{TRACING}/set_ftrace_filter", text)


def test_profiler_comes_first_and_counts_over_all_cpus(host: FakeHost) -> None:
    host.add_tracing()
    fs = FakeSysfs(host)
    counter = choose_counter(fs)
    assert isinstance(counter, FunctionProfileCounter)
    with counter.active():
        host.set_cpu(7, False)
        before = counter.read()
        host.set_cpu(7, True)
        host.write_control("off")
        counts = subtract(counter.read(), before)
    assert counts == {
        "synchronize_rcu": 18 + 2,
        "stop_machine": 6,
        "domain_rebuild": 7,
        "synchronize_rcu_expedited": 0,
    }


def test_profiler_puts_filter_and_threshold_back(host: FakeHost) -> None:
    host.add_tracing()
    put_filter(host, "schedule")
    host.put(f"{TRACING}/tracing_thresh", "100")
    before = tracing_state(host)
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        assert host.get(f"{TRACING}/tracing_thresh") == "0"
        assert host.get(f"{TRACING}/function_profile_enabled") == "1"
        assert "schedule" not in host.get(f"{TRACING}/set_ftrace_filter").split()
    after = tracing_state(host)
    assert {name: text.strip() for name, text in after.items()} == {
        name: text.strip() for name, text in before.items()
    }


def test_profiler_is_set_up_before_it_is_switched_on(host: FakeHost) -> None:
    host.add_tracing()
    fs = FakeSysfs(host)
    with choose_counter(fs).active():
        pass
    names = [name.rsplit("/", 1)[1] for name, _ in fs.writes]
    assert names.index("set_ftrace_filter") < names.index("function_profile_enabled")


def test_tracing_is_put_back_when_the_switch_blows_up(host: FakeHost) -> None:
    host.add_tracing(profiler=False)
    before = tracing_state(host)
    counter = choose_counter(FakeSysfs(host))
    with pytest.raises(RuntimeError), counter.active():
        assert tracing_state(host) != before
        raise RuntimeError
    assert tracing_state(host) == before


@pytest.mark.parametrize("why", ["absent", "busy", "blind"])
def test_kprobes_stand_in_for_the_profiler(host: FakeHost, why: str) -> None:
    host.add_tracing(profiler=why != "absent")
    if why == "busy":
        host.put(f"{TRACING}/function_profile_enabled", "1")
    if why == "blind":
        host.put(f"{TRACING}/available_filter_functions", "schedule")
    before = tracing_state(host)
    counter = choose_counter(FakeSysfs(host))
    assert isinstance(counter, KprobeCounter)
    assert tracing_state(host) == before
    with counter.active():
        host.write_control("off")
        assert counter.read() == OFF_BY_KPROBES
    assert tracing_state(host) == before


def test_other_peoples_kprobes_stay(host: FakeHost) -> None:
    host.add_tracing(profiler=False)
    host.put(f"{TRACING}/kprobe_events", "p:mine/stop_machine stop_machine_cpuslocked")
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        host.write_control("off")
        assert counter.read() == OFF_BY_KPROBES
    assert host.get(f"{TRACING}/kprobe_events") == "p:mine/stop_machine stop_machine_cpuslocked"


def test_what_a_killed_run_left_behind_is_cleared(host: FakeHost) -> None:
    host.add_tracing(profiler=False)
    fs = FakeSysfs(host)
    killed = KprobeCounter(fs, f"/{TRACING}")
    assert killed.problem() is None
    killed._start()
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        host.write_control("off")
        assert counter.read() == OFF_BY_KPROBES


@pytest.mark.parametrize("profiler", [True, False])
def test_chunks_are_counted_where_the_kernel_tells_them(host: FakeHost, golden: Path, profiler: bool) -> None:
    host.add_tracing(profiler=profiler)
    (host.root / TRACING / "instances").mkdir(exist_ok=True)
    host.put(f"{TRACING}/events/cpuhp/cpuhp_bulk_chunk/enable", "0")
    counter = choose_counter(FakeSysfs(host))
    assert isinstance(counter, CounterWithChunks)
    assert counter.name == ("function_profile" if profiler else "kprobe")
    instance = f"{TRACING}/instances/hotplug-timer-bulk"
    with counter.active():
        assert host.get(f"{instance}/events/cpuhp/cpuhp_bulk_chunk/enable") == "1"
        first = counter.read()
        host.put(f"{instance}/trace", (golden / "bulk_trace/serial.txt").read_text())
        host.write_control("off")
        counts = subtract(counter.read(), first)
    assert counts == {**(OFF_BY_PROFILER if profiler else OFF_BY_KPROBES), "chunks": 2, "serial_chunks": 1}
    assert not host.has(instance)


def test_optional_function_may_be_missing(host: FakeHost) -> None:
    host.add_tracing()
    path = f"{TRACING}/available_filter_functions"
    host.put(path, host.get(path).replace("synchronize_rcu_expedited", ""))
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        assert set(counter.read()) == {"synchronize_rcu", "stop_machine", "domain_rebuild"}


def test_a_kernel_without_either_is_told_what_it_lacks(host: FakeHost) -> None:
    host.add_tracing(profiler=False, kprobes=False)
    with pytest.raises(ToolError) as caught:
        choose_counter(FakeSysfs(host))
    assert "CONFIG_FUNCTION_PROFILER" in caught.value.message
    assert "CONFIG_KPROBE_EVENTS" in caught.value.message
    assert "--count-iterations 0" in caught.value.hint
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_kernel_without_the_function_is_told_which(host: FakeHost) -> None:
    host.add_tracing(traceable="synchronize_rcu")
    with pytest.raises(ToolError) as caught:
        choose_counter(FakeSysfs(host))
    assert "cannot trace partition_sched_domains_locked, stop_machine_cpuslocked" in caught.value.message
    assert "refuses a kprobe on stop_machine_cpuslocked (No such file or directory)" in caught.value.message


@pytest.mark.parametrize("profiler", [True, False])
def test_a_function_that_is_inlined_is_counted_by_its_caller(host: FakeHost, profiler: bool) -> None:
    host.add_tracing(profiler=profiler)
    for name in ("available_filter_functions", "traceable"):
        text = host.get(f"{TRACING}/{name}")
        host.put(
            f"{TRACING}/{name}", text.replace("partition_sched_domains_locked", "partition_sched_domains")
        )
    counter = choose_counter(FakeSysfs(host))
    with counter.active():
        wanted = host.get(f"{TRACING}/{'set_ftrace_filter' if profiler else 'kprobe_events'}")
        assert "domain_rebuild" in counter.read()
    assert sum("partition_sched_domains" in line for line in wanted.splitlines()) == 1
    assert "partition_sched_domains_locked" not in wanted


@pytest.mark.parametrize(("late", "sleeps"), [([0, 1, 2, 2], 3), (list(range(50)), SETTLE_TRIES)])
def test_what_switching_tracing_on_costs_is_waited_for(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, late: list[int], sleeps: int
) -> None:
    host.add_tracing()
    counter = choose_counter(FakeSysfs(host))
    readings = iter(late)
    slept: list[float] = []
    monkeypatch.setattr(counter, "read", lambda: {"synchronize_rcu": next(readings)})
    monkeypatch.setattr(time, "sleep", slept.append)
    with counter.active():
        pass
    assert slept == [SETTLE_S] * sleeps


def test_tracefs_that_is_not_mounted_gets_the_mount_command(host: FakeHost) -> None:
    (host.root / TRACING).mkdir(parents=True)
    with pytest.raises(ToolError, match=r"no tracing files in .*/sys/kernel/tracing; mount -t tracefs"):
        choose_counter(FakeSysfs(host))


def test_debugfs_path_of_old_kernels_is_found(host: FakeHost) -> None:
    host.add_tracing()
    (host.root / "sys/kernel/debug").mkdir()
    (host.root / TRACING).rename(host.root / "sys/kernel/debug/tracing")
    assert choose_counter(FakeSysfs(host)).name == "function_profile"


def test_tracing_that_cannot_be_written_is_an_environment_fault(host: FakeHost) -> None:
    host.add_tracing()

    class ReadOnly(FakeSysfs):
        def write(self, name: str, text: str) -> None:
            if name.endswith("function_profile_enabled") and text == "1":
                raise OSError(28, "No space left on device", name)
            super().write(name, text)

    counter = choose_counter(ReadOnly(host))
    with (
        pytest.raises(ToolError, match=r"cannot start counting: .*function_profile_enabled"),
        counter.active(),
    ):
        pytest.fail("counted without a counter")
    assert host.get(f"{TRACING}/set_ftrace_filter") == ""
