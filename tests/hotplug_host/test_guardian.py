"""RCU settings come back whoever is killed, by which signal, and at which step."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from hotplug_host import guardian
from hotplug_host.errors import ToolError
from hotplug_host.guardian import Guardian, lock_settings
from hotplug_host.rcu import FQS_DELAYS, RCU_EXPEDITED
from hotplug_host.timing import command
from tests.fakes.fakehost import FakeHost, FakeSysfs

BEFORE = {RCU_EXPEDITED: "0", FQS_DELAYS[0]: "3", FQS_DELAYS[1]: "3"}
ARGUMENTS = ("smt", "off", "--expedite", "--tune-fqs", "--via=smt-control")
STEPS = 41
#: A few steps of all parts of the work; `make test` takes the other ones, too.
FEW = range(3, STEPS + 1, 8)
at_any_step = pytest.mark.parametrize(
    "steps",
    [
        pytest.param(FEW, id="few-steps"),
        pytest.param(sorted({*range(1, STEPS + 1)} - {*FEW}), id="all-others", marks=pytest.mark.slow),
    ],
)


class SteppingSysfs(FakeSysfs):
    """Stops whoever is at step NUMBER, over all processes, until a file `go` is there.

    A step is before a read, before a write and after one. What was written is logged.
    """

    def __init__(self, host: FakeHost, number: int) -> None:
        super().__init__(host)
        self.number = number

    def read(self, name: str) -> str:
        self._step()
        return super().read(name)

    def read_optional(self, name: str) -> str | None:
        self._step()
        return super().read_optional(name)

    def write(self, name: str, text: str) -> None:
        self._step()
        super().write(name, text)
        _append(self.host.root / "written", f"{name} {text}\n")
        self._step()

    def _step(self) -> None:
        steps = self.host.root / "steps"
        _append(steps, f"{os.getpid()}\n")
        if len(steps.read_text().splitlines()) == self.number:
            (self.host.root / "stopped").touch()
            while not (self.host.root / "go").exists():
                time.sleep(0.002)


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.002)


@dataclass
class Tool:
    """One `hotplug-timer smt off --expedite --tune-fqs` in a process of its own, stopped at a step."""

    host: FakeHost
    step: int
    status: int | None = None
    pid: int = field(init=False)

    #: Those that ran in a test.
    all: ClassVar[list[Tool]] = []

    def start(self, *options: str) -> Tool:
        Tool.all.append(self)
        self.pid = os.fork()
        if self.pid == 0:
            self._be_the_tool(options)
        wait_for(lambda: self.host.has("stopped") or self.ended())
        return self

    def _be_the_tool(self, options: tuple[str, ...]) -> None:
        code = 99
        try:
            os.setsid()
            output = os.open(self.host.root / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            signal.signal(signal.SIGINT, signal.default_int_handler)
            start = Guardian.start

            def noting_start(this: Guardian) -> None:
                start(this)
                (self.host.root / "guardian").write_text(str(this.pid))

            setattr(Guardian, "start", noting_start)  # noqa: B010 - mypy knows better than to assign it
            setattr(command, "Sysfs", lambda _root: SteppingSysfs(self.host, self.step))  # noqa: B010
            code = command.main([*ARGUMENTS, f"--sysroot={self.host.root}", *options])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)

    @property
    def guardian(self) -> int | None:
        return int(self.host.get("guardian")) if self.host.has("guardian") else None

    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def go(self) -> None:
        """Let everybody go on, and wait until tool and guardian are gone: the lock goes with the last."""
        (self.host.root / "go").touch()
        wait_for(self.ended)
        wait_for(self._is_unlocked)

    def _is_unlocked(self) -> bool:
        with contextlib.suppress(ToolError), lock_settings(FakeSysfs(self.host)):
            return True
        return False

    @property
    def output(self) -> str:
        return self.host.get_or("output")

    @property
    def written(self) -> list[str]:
        return self.host.get_or("written").splitlines()


def new_host(root: Path) -> FakeHost:
    root.mkdir()
    return FakeHost.build(root).add_fqs_delays()


def assert_restored(tool: Tool, where: str) -> None:
    values = {name: tool.host.get(name.lstrip("/")) for name in BEFORE}
    assert values == BEFORE, where
    for name, before in BEFORE.items():
        changed = tool.written.count(f"{name} 1")
        restored = tool.written.count(f"{name} {before}")
        assert changed <= 1, where
        assert restored == changed, where


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """A test that fails leaves processes that wait."""
    yield
    for tool in Tool.all:
        if not tool.ended():
            os.kill(tool.pid, signal.SIGKILL)
            if tool.guardian is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(tool.guardian, signal.SIGKILL)
            (tool.host.root / "go").touch()
            wait_for(tool.ended)
    Tool.all.clear()


@pytest.fixture(scope="module")
def switching(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The step just before the switch."""
    tool = Tool(new_host(tmp_path_factory.mktemp("look") / "host"), 0).start()
    tool.go()
    pids = tool.host.get("steps").splitlines()
    # Of the three processes, the one that switches has two steps: before its write and after it.
    return next(step for step, pid in enumerate(pids, 1) if pids.count(pid) == 2)


def test_the_steps_are_all_of_them(tmp_path: Path) -> None:
    """Nobody is killed; and the other tests go through all steps there are."""
    tool = Tool(new_host(tmp_path / "host"), 0).start()
    tool.go()
    assert tool.status == 0, tool.output
    assert_restored(tool, "nothing killed")
    assert len(tool.host.get("steps").splitlines()) == STEPS
    assert tool.host.online == {0, 4}


@at_any_step
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_tool_is_killed_at_any_step(tmp_path: Path, signum: signal.Signals, steps: Sequence[int]) -> None:
    for step in steps:
        tool = Tool(new_host(tmp_path / str(step)), step).start()
        os.kill(tool.pid, signum)
        tool.go()
        where = f"{signum.name} at step {step}: {tool.output}"
        assert_restored(tool, where)
        if signum == signal.SIGKILL:
            assert tool.status == -signal.SIGKILL, where
            continue
        stopped = f"hotplug-timer: error: stopped by {signum.name}; nothing was switched" in tool.output
        assert tool.status == ((130 if signum == signal.SIGINT else 143) if stopped else 0), where
        assert tool.host.online == (frozenset(range(8)) if stopped else {0, 4}), where


@at_any_step
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_guardian_is_killed_at_any_step(
    tmp_path: Path, signum: signal.Signals, steps: Sequence[int]
) -> None:
    killed = 0
    for step in steps:
        tool = Tool(new_host(tmp_path / str(step)), step).start()
        if tool.guardian is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(tool.guardian, signum)
                killed += 1
        tool.go()
        where = f"{signum.name} at step {step}: {tool.output}"
        assert_restored(tool, where)
        # Either the switch was done, or it was not begun, and it says why.
        if tool.status == 0:
            assert tool.host.online == {0, 4}, where
        else:
            assert tool.status == 3, where
            assert "cannot change RCU settings" in tool.output, where
            assert tool.host.online == frozenset(range(8)), where
    assert killed >= len(steps) // 2


def test_the_whole_session_is_killed_and_the_guardian_is_not_in_it(tmp_path: Path, switching: int) -> None:
    """As when a terminal goes away."""
    host = new_host(tmp_path / "host")
    tool = Tool(host, switching).start()
    assert host.get(RCU_EXPEDITED.lstrip("/")) == "1"
    os.killpg(tool.pid, signal.SIGKILL)
    tool.go()
    assert_restored(tool, "the session")


def test_a_unit_that_is_stopped_has_restored_before_it_is_killed(tmp_path: Path, switching: int) -> None:
    """SIGTERM to all of its processes, and SIGKILL to those that are left after a while."""
    host = new_host(tmp_path / "host")
    tool = Tool(host, switching).start()
    assert tool.guardian is not None
    for pid in (tool.guardian, tool.pid):
        os.kill(pid, signal.SIGTERM)
    # The log of what was written comes after it, and is what is looked at.
    wait_for(lambda: f"{RCU_EXPEDITED} 0" in tool.written)
    with contextlib.suppress(ProcessLookupError):
        os.kill(tool.guardian, signal.SIGKILL)
    os.kill(tool.pid, signal.SIGKILL)
    tool.go()
    assert_restored(tool, tool.output)


def test_a_guardian_that_is_gone_in_mid_switch_is_noticed_soon(tmp_path: Path, switching: int) -> None:
    """Not only when the switch is over, an hour later."""
    host = new_host(tmp_path / "host")
    tool = Tool(host, switching).start()
    assert tool.guardian is not None
    os.kill(tool.guardian, signal.SIGKILL)
    wait_for(lambda: host.get(RCU_EXPEDITED.lstrip("/")) == "0")
    assert not tool.ended()
    tool.go()
    assert tool.status == 0
    assert_restored(tool, tool.output)
    assert "was killed, so they were put back in its place" in tool.output
    assert ", expedited" not in tool.output


def test_a_guardian_that_nobody_asks_restores_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switching: int
) -> None:
    monkeypatch.setattr("hotplug_host.timing.smt.MARGIN_S", 0.2)
    host = new_host(tmp_path / "host")
    tool = Tool(host, switching).start("--timeout=0.3")
    os.kill(tool.pid, signal.SIGSTOP)
    wait_for(lambda: host.get(RCU_EXPEDITED.lstrip("/")) == "0")
    os.kill(tool.pid, signal.SIGCONT)
    tool.go()
    assert_restored(tool, tool.output)


def test_a_guardian_that_does_not_answer_is_ended_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switching: int
) -> None:
    """What the tool restores in its place, it must not restore again."""
    # The guardian has no more than that to begin with, either.
    monkeypatch.setattr(guardian, "ANSWER_S", 2.0)
    host = new_host(tmp_path / "host")
    tool = Tool(host, switching).start()
    assert tool.guardian is not None
    os.kill(tool.guardian, signal.SIGSTOP)
    tool.go()
    assert tool.status == 0, tool.output
    assert_restored(tool, tool.output)


def test_a_second_signal_ends_the_switch_and_restores(tmp_path: Path, switching: int) -> None:
    host = new_host(tmp_path / "host")
    tool = Tool(host, switching).start()
    os.kill(tool.pid, signal.SIGTERM)
    wait_for(lambda: "a second signal ends it" in tool.output)
    os.kill(tool.pid, signal.SIGTERM)
    wait_for(tool.ended)
    tool.go()
    assert tool.status == 143
    assert "stopped by SIGTERM while switching to smt=off: ended early by a second signal" in tool.output
    assert_restored(tool, tool.output)


@pytest.mark.slow
def test_the_tool_is_killed_while_ppc64_cpu_switches(tmp_path: Path) -> None:
    """The pipe that the guardian watches is no descriptor of ppc64_cpu's, which goes on."""
    host = new_host(tmp_path / "host")
    programs = host.install_ppc64_cpu(path="per-cpu", pause=4)
    tool = subprocess.Popen(
        [sys.executable, "-m", "hotplug_timer.cli", "smt", "off", "--expedite", f"--sysroot={host.root}"],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )
    wait_for((host.root / "half-way").exists)
    assert host.get(RCU_EXPEDITED.lstrip("/")) == "1"
    tool.kill()
    tool.wait()
    wait_for(lambda: host.get(RCU_EXPEDITED.lstrip("/")) == "0", 3.0)
    assert host.online == {0, 4, 5, 6, 7}
    wait_for(lambda: host.online == {0, 4})
