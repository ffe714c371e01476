import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from hotplug_host import child
from hotplug_host.child import Watch, describe_failure, run_command, run_function
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import CORES_ON, CPUS, SMT
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.operation import SMT_OFF, Machine
from hotplug_host.timing.switch import Ppc64CpuDriver, SmtControlDriver, choose_driver, require_root
from hotplug_host.topology import read_topology
from tests.fakes.fakehost import FakeHost, FakeSysfs


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
        choose_driver(SMT, via, FakeSysfs(host))
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_driver_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = FakeSysfs(FakeHost.build(tmp_path / "new"))
    old = FakeSysfs(FakeHost.build(tmp_path / "old", control=None))
    odd = FakeSysfs(FakeHost.build(tmp_path / "odd", control="notimplemented"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(choose_driver(SMT, "auto", new), SmtControlDriver)
    with pytest.raises(ToolError, match="ppc64_cpu is not installed; install powerpc-utils"):
        choose_driver(SMT, "ppc64_cpu", new)
    for fs in (old, odd):
        with pytest.raises(ToolError, match="nothing to switch SMT with"):
            choose_driver(SMT, "auto", fs)
        with pytest.raises(ToolError, match="not there or not implemented"):
            choose_driver(SMT, "smt-control", fs)
    monkeypatch.setenv("PATH", str(new.host.install_ppc64_cpu()))
    for fs in (new, old, odd):
        assert isinstance(choose_driver(SMT, "auto", fs), Ppc64CpuDriver)
    assert isinstance(choose_driver(SMT, "smt-control", new), SmtControlDriver)


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
    result = run_command([sys.executable, "-SEc", "import time; time.sleep(0.2)"], Watch(10, stop))
    assert result.error is None
    assert result.seconds is not None
    assert 0.2 <= result.seconds < 10


def test_function_time_is_of_the_write_alone(stop: StopRequest) -> None:
    result = run_function(lambda: time.sleep(0.1), Watch(10, stop))
    assert result.error is None
    assert result.seconds is not None
    assert 0.1 <= result.seconds < 10


def test_function_reports_the_kernels_refusal(stop: StopRequest, host: FakeHost) -> None:
    host.stick(2)
    fs = FakeSysfs(host)
    result = SmtControlDriver(fs).perform(SMT_OFF, Machine(read_topology(fs), host.online), Watch(10, stop))
    assert result.error == "Device or resource busy"


def test_a_missing_command_is_an_error(stop: StopRequest) -> None:
    assert run_command(["/nonexistent/ppc64_cpu"], Watch(1, stop)).error == (
        "/nonexistent/ppc64_cpu did not start: No such file or directory"
    )


@pytest.mark.parametrize("how", ["command", "function"])
def test_timeout_ends_the_child(stop: StopRequest, how: str) -> None:
    started = time.monotonic()
    if how == "command":
        result = run_command(["sleep", "30"], Watch(0.1, stop))
    else:
        result = run_function(lambda: time.sleep(30), Watch(0.1, stop))
    assert result.timed_out
    assert result.seconds is None
    assert result.left_running is None
    assert time.monotonic() - started < 20


def test_a_child_that_cannot_be_ended_is_named(stop: StopRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "TERMINATE_GRACE_S", 0.1)

    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1)

    result = run_function(stubborn, Watch(0.2, stop))
    assert result.timed_out
    assert result.left_running is not None


def test_first_signal_waits_for_the_switch_and_a_second_ends_it(stop: StopRequest) -> None:
    stop.count = 1
    assert run_command(["sleep", "0.1"], Watch(10, stop)).error is None
    threading.Timer(0.2, lambda: stop._on_signal(signal.SIGINT, None)).start()
    result = run_command(["sleep", "30"], Watch(10, stop))
    assert result.aborted
    assert result.error == "ended early by a second signal"


def test_child_is_out_of_reach_of_the_terminal(stop: StopRequest, tmp_path: Path) -> None:
    code = f"import os; open({str(tmp_path / 'sid')!r}, 'w').write(str(os.getsid(0) == os.getpid()))"
    assert run_command([sys.executable, "-SEc", code], Watch(10, stop)).error is None
    assert (tmp_path / "sid").read_text() == "True"


def test_what_can_do_cores_and_cpus(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, use_ppc64_cpu: Callable[..., None]
) -> None:
    fs = FakeSysfs(host)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_driver(CORES_ON, "auto", fs).name == "cpu-online"
    use_ppc64_cpu(host)
    assert choose_driver(CORES_ON, "auto", fs).name == "ppc64_cpu"
    assert choose_driver(CORES_ON, "cpu-online", fs).name == "cpu-online"
    assert choose_driver(CPUS, "auto", fs).name == "cpu-online"
    # What smt/control says is no matter to them.
    host.put("sys/devices/system/cpu/smt/control", "notsupported")
    assert choose_driver(CPUS, "auto", fs).name == "cpu-online"
    for kind, via in (
        (CPUS, "ppc64_cpu"),
        (CPUS, "smt-control"),
        (CORES_ON, "smt-control"),
        (SMT, "cpu-online"),
    ):
        with pytest.raises(
            ToolError, match=f"--via {via} cannot do {kind}= operations; use one of"
        ) as caught:
            choose_driver(kind, via, fs)
        assert caught.value.code == ExitCode.USAGE


def test_whoever_watches_is_told_once_a_second(stop: StopRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "TICK_S", 0.1)
    ticks: list[float] = []
    assert run_function(lambda: time.sleep(0.45), Watch(10, stop, ticks.append)).error is None
    assert ticks
    assert ticks[0] >= 0.1
    assert all(later - sooner >= 0.1 for sooner, later in pairwise(ticks))
