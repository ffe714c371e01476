import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fakehost import FakeHost, FakeSysfs

from hotplug_timer.errors import ExitCode, ToolError
from hotplug_timer.target import child
from hotplug_timer.target.child import describe_failure, run_command, run_function
from hotplug_timer.target.signals import StopRequest
from hotplug_timer.target.switch import (
    Operation,
    Ppc64CpuDriver,
    SmtControlDriver,
    check_levels,
    choose_driver,
    detect_path,
    from_threads,
    parse_operation,
    require_root,
)
from hotplug_timer.target.sysfs import Sysfs
from hotplug_timer.target.topology import read_topology


@pytest.mark.parametrize("text", ["smt", "smt=", "off", "smt=0", "smt=-1", "smt=max", "cpu=off", "smt=٣"])
def test_unknown_operations_are_refused(text: str) -> None:
    with pytest.raises(ToolError, match="unknown operation") as caught:
        parse_operation(text)
    assert caught.value.code == ExitCode.USAGE


def test_operations_and_their_threads() -> None:
    assert [parse_operation(f"smt={level}").threads(8) for level in ("off", "on", "2", "08")] == [1, 8, 2, 8]
    assert parse_operation("smt=04") == Operation("4")


def test_levels_the_machine_lacks_are_refused_with_those_it_has(host: FakeHost, tmp_path: Path) -> None:
    power = read_topology(FakeSysfs(host))
    check_levels((Operation("3"), Operation("on")), power, "ppc64le")
    with pytest.raises(ToolError, match=r"smt=8: .*; it has 1, 2, 3, 4 threads per core") as caught:
        check_levels((Operation("8"),), power, "ppc64le")
    assert caught.value.code == ExitCode.USAGE
    # x86 has no levels in between.
    with pytest.raises(ToolError, match=r"it has 1, 4 threads per core"):
        check_levels((Operation("2"),), power, "x86_64")
    single = read_topology(FakeSysfs(FakeHost.build(tmp_path / "single", threads=1)))
    with pytest.raises(ToolError, match="one thread per core"):
        check_levels((Operation("off"),), single, "ppc64le")


@pytest.mark.parametrize(
    ("cycle", "starts"),
    [
        (("off",), [8]),
        (("on",), [1]),
        (("4",), [8]),
        (("off", "on"), [8, 1]),
        (("4", "off"), [1, 4]),
        (("off", "2", "on"), [8, 1, 2]),
        (("off", "1"), [8, 8]),
    ],
)
def test_every_iteration_starts_from_where_the_cycle_comes(cycle: tuple[str, ...], starts: list[int]) -> None:
    operations = tuple(Operation(level) for level in cycle)
    assert [from_threads(operations, at, 8) for at in range(len(cycle))] == starts


@pytest.mark.parametrize(
    ("before", "after", "threads", "path"),
    [
        ("on", "off", 1, "smt/control"),
        ("off", "on", 8, "smt/control"),
        ("on", "4", 4, "smt/control"),
        ("on", "on", 1, "per-cpu"),  # ppc64_cpu 1.3.10 leaves smt/control saying "on"
        (None, None, 1, "per-cpu"),  # powerpc before 6.6
        ("notimplemented", "notimplemented", 1, "per-cpu"),
        ("on", "2", 1, None),
    ],
)
def test_path_is_told_by_what_smt_control_says(
    before: str | None, after: str | None, threads: int, path: str | None
) -> None:
    assert detect_path(before, after, threads, 8) == path


@pytest.mark.parametrize("via", ["auto", "ppc64_cpu", "smt-control"])
@pytest.mark.parametrize(
    ("control", "words"), [("forceoff", "forced off"), ("notsupported", "this machine has no SMT")]
)
def test_control_that_cannot_switch_is_refused(
    tmp_path: Path, via: str, control: str, words: str, use_ppc64_cpu: Callable[..., None]
) -> None:
    host = FakeHost.build(tmp_path, control=control)
    use_ppc64_cpu(host)
    with pytest.raises(ToolError, match=words) as caught:
        choose_driver(via, FakeSysfs(host))
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_driver_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = FakeSysfs(FakeHost.build(tmp_path / "new"))
    old = FakeSysfs(FakeHost.build(tmp_path / "old", control=None))
    odd = FakeSysfs(FakeHost.build(tmp_path / "odd", control="notimplemented"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(choose_driver("auto", new), SmtControlDriver)
    with pytest.raises(ToolError, match="ppc64_cpu is not installed; install powerpc-utils"):
        choose_driver("ppc64_cpu", new)
    for fs in (old, odd):
        with pytest.raises(ToolError, match="nothing to switch SMT with"):
            choose_driver("auto", fs)
        with pytest.raises(ToolError, match="not there or not implemented"):
            choose_driver("smt-control", fs)
    monkeypatch.setenv("PATH", str(new.host.install_ppc64_cpu()))
    for fs in (new, old, odd):
        assert isinstance(choose_driver("auto", fs), Ppc64CpuDriver)
    assert isinstance(choose_driver("smt-control", new), SmtControlDriver)


def test_root_is_asked_for_on_a_real_host_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    require_root(Sysfs(tmp_path))
    with pytest.raises(ToolError, match="needs root; run it again with sudo") as caught:
        require_root(Sysfs())
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_failures_say_what_ppc64_cpu_said(golden: Path) -> None:
    for case in sorted((golden / "ppc64_cpu").glob("*.out")):
        status, _, output = case.read_text().partition("\n")
        expected = case.with_suffix(".error").read_text().strip()
        assert describe_failure(["ppc64_cpu", "--smt=off"], int(status), output) == expected
    assert len(list((golden / "ppc64_cpu").glob("*.out"))) >= 4


@pytest.fixture
def stop() -> StopRequest:
    return StopRequest()


def test_time_is_that_of_the_command(stop: StopRequest) -> None:
    result = run_command([sys.executable, "-SEc", "import time; time.sleep(0.2)"], 10, stop)
    assert result.error is None
    assert result.seconds is not None
    assert 0.2 <= result.seconds < 10


def test_function_time_is_of_the_write_alone(stop: StopRequest) -> None:
    result = run_function(lambda: time.sleep(0.1), 10, stop)
    assert result.error is None
    assert result.seconds is not None
    assert 0.1 <= result.seconds < 10


def test_function_reports_the_kernels_refusal(stop: StopRequest, host: FakeHost) -> None:
    host.stick(2)
    result = SmtControlDriver(FakeSysfs(host)).switch(1, 4, 10, stop)
    assert result.error == "Device or resource busy"


def test_a_missing_command_is_an_error(stop: StopRequest) -> None:
    assert run_command(["/nonexistent/ppc64_cpu"], 1, stop).error == (
        "/nonexistent/ppc64_cpu did not start: No such file or directory"
    )


@pytest.mark.parametrize("how", ["command", "function"])
def test_timeout_ends_the_child(stop: StopRequest, how: str) -> None:
    started = time.monotonic()
    if how == "command":
        result = run_command(["sleep", "30"], 0.1, stop)
    else:
        result = run_function(lambda: time.sleep(30), 0.1, stop)
    assert result.timed_out
    assert result.seconds is None
    assert result.left_running is None
    assert time.monotonic() - started < 20


def test_a_child_that_cannot_be_ended_is_named(stop: StopRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "TERMINATE_GRACE_S", 0.1)

    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3)

    result = run_function(stubborn, 1.0, stop)
    assert result.timed_out
    assert result.left_running is not None


def test_first_signal_waits_for_the_switch_and_a_second_ends_it(stop: StopRequest) -> None:
    stop.count = 1
    assert run_command(["sleep", "0.1"], 10, stop).error is None
    threading.Timer(0.2, lambda: stop._on_signal(signal.SIGINT, None)).start()
    result = run_command(["sleep", "30"], 10, stop)
    assert result.aborted
    assert result.error == "ended early by a second signal"


def test_child_is_out_of_reach_of_the_terminal(stop: StopRequest, tmp_path: Path) -> None:
    code = f"import os; open({str(tmp_path / 'sid')!r}, 'w').write(str(os.getsid(0) == os.getpid()))"
    assert run_command([sys.executable, "-SEc", code], 10, stop).error is None
    assert (tmp_path / "sid").read_text() == "True"
