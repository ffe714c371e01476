"""What a guest writes: lines and records as they come, silence, and which files it gets."""

import os
import shlex
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.arch import PPC64LE
from hotplug_common.guest import deadlock
from hotplug_common.guest.deadlock import DeadlockError
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify import bare, lab, proving, rttests
from kernel_qualify.commands import rcutorture, stress
from kernel_qualify.commands.matrix import uncovered
from kernel_qualify.judge import logs
from kernel_qualify.proving import SilenceError
from tests import ROOT

ORDER = proving.Order("ppc64le", "6.12", 2, 8)


class FakeLab:
    """A lab whose base disk is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def must(self, *_: object, **__: object) -> str:
        return ""


def python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_lines_of_both_pipes_come() -> None:
    with python("import sys; print('one'); print('two', file=sys.stderr)") as command:
        assert sorted(proving.lines_of(command, 30)) == ["one", "two"]


def test_a_command_that_is_silent_is_ended() -> None:
    with python("import time; print('one', flush=True); time.sleep(60)") as command:
        lines = proving.lines_of(command, 1)
        assert next(lines) == "one"
        with pytest.raises(SilenceError, match="wrote nothing for 1 s") as caught:
            next(lines)
        assert caught.value.code == ExitCode.TIMEOUT
        assert command.wait() != 0


def test_a_silent_command_can_end_its_own_children() -> None:
    """A playbook ends its tasks, and a build its compilers, when SIGTERM tells them to."""
    handled = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))"
    code = f"import signal, sys, time; {handled}; print(flush=True); time.sleep(60)"
    with python(code) as command:
        with pytest.raises(SilenceError):
            list(proving.lines_of(command, 1))
        assert command.returncode == 3


def test_a_silent_command_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an emulator may wait for itself; it has not to be waited for until the silence is too long."""
    monkeypatch.setattr(proving, "LOOK_EVERY_S", 0.1)

    def look() -> None:
        raise DeadlockError("guest of 2 x 8 CPUs")

    with python("import time; print('one', flush=True); time.sleep(60)") as command:
        lines = proving.lines_of(command, 60, look)
        assert next(lines) == "one"
        with pytest.raises(DeadlockError, match="the emulator's deadlock, and not the kernel's"):
            next(lines)
        assert command.returncode


class Standing:
    """Guests of which the first `number` have an emulator that waits for itself, and then one works."""

    def __init__(self, number: int) -> None:
        self.number = number

    @contextmanager
    def machine(self, *_: object, **__: object) -> Iterator[bare.Guest]:
        self.number -= 1
        code = "import time; time.sleep(60)" if self.number >= 0 else f"print('{bare.ENDED}0')"
        with subprocess.Popen(["sleep", "60"]) as emulator, python(code) as output:
            try:
                yield bare.Guest(emulator, output, Path())
            finally:
                emulator.kill()
                output.kill()


@pytest.mark.parametrize("number", [0, 1, proving.TRIES])
def test_a_guest_whose_emulator_waits_for_itself_is_started_again(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    guest = proving.Proving(FakeLab(tmp_path), ORDER, tmp_path, said.append)  # type: ignore[arg-type]
    monkeypatch.setattr(proving, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(deadlock, "SECONDS", 0.3)
    monkeypatch.setattr(bare, "machine", Standing(number).machine)
    monkeypatch.setattr(proving, "archive", lambda: b"")
    monkeypatch.setattr(guest, "kernel", lambda: None)
    if number == proving.TRIES:
        with pytest.raises(DeadlockError):
            guest.alone("speed")
    else:
        assert guest.alone("speed") == []
    again = [line for line in said if line.endswith("once more")]
    assert len(again) == min(number, proving.TRIES - 1)


def test_what_hears_a_bare_guests_records_gets_them_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    guest = proving.Proving(FakeLab(tmp_path), ORDER, tmp_path, lambda _: None)  # type: ignore[arg-type]

    @contextmanager
    def machine(folder: Path, *_: object, **__: object) -> Iterator[bare.Guest]:
        code = f"""print('a line'); print('{{"kind": "one"}}'); print('{bare.ENDED}0')"""
        with subprocess.Popen(["sleep", "60"]) as emulator, python(code) as output:
            yield bare.Guest(emulator, output, folder / "guest")
            emulator.kill()

    def beside(folder: Path) -> proving.Heard:
        heard.append(folder)
        return heard.append

    monkeypatch.setattr(bare, "machine", machine)
    monkeypatch.setattr(proving, "archive", lambda: b"")
    monkeypatch.setattr(guest, "kernel", lambda: None)
    assert guest.alone("churn", beside=beside) == [{"kind": "one"}]
    assert heard == [tmp_path / "guest", {"kind": "one"}]


def test_what_bare_guests_reported_is_found(tmp_path: Path) -> None:
    guest = proving.Proving(FakeLab(tmp_path), ORDER, tmp_path, lambda _: None)  # type: ignore[arg-type]
    (tmp_path / "console.log").write_text("[    1.0] all is well\n")
    assert guest.bare_problems() == []
    (tmp_path / "console.log").write_text("[    1.0] BUG: sleeping function called from invalid context\n")
    assert len(guest.bare_problems()) == 1


RACE = "[    1.0] BUG: KCSAN: data-race in {} / wake_up_process\n"


@pytest.mark.parametrize(
    ("fragments", "console", "count"),
    [
        (("debug",), RACE.format("enqueue_hrtimer"), 1),
        (("kcsan",), RACE.format("enqueue_hrtimer"), 0),
        (("kcsan",), RACE.format("takedown_cpus"), 1),
        (("kcsan",), "", 1),
    ],
    ids=["no KCSAN ordered", "a race of stock", "a race of the series", "no race"],
)
def test_with_kcsan_only_races_of_the_series_count(
    fragments: tuple[str, ...], console: str, count: int, tmp_path: Path
) -> None:
    booted = Booted(tmp_path, 0)
    booted.project = ROOT
    (tmp_path / "proving").mkdir()
    (tmp_path / "proving/console.log").write_text(console)
    order = replace(ORDER, fragments=fragments)
    guest = proving.Proving(booted, order, tmp_path, lambda _: None)  # type: ignore[arg-type]
    assert len(guest.log_problems()) == count


class Booted(FakeLab):
    """A lab with a running guest, in which each script runs `code`."""

    def __init__(self, folder: Path, pid: int, code: str = "import time; time.sleep(60)") -> None:
        super().__init__(folder)
        self.pid = pid
        self.code = code
        self.guests = folder
        self.project = folder
        self.words: tuple[object, ...] = ()

    def status(self) -> dict[str, dict[str, int]]:
        return {"proving": {"pid": self.pid}}

    def start(self, *words: object) -> subprocess.Popen[str]:
        self.words = words
        self.script = python(self.code)
        return self.script


@pytest.mark.parametrize(
    ("changed", "radix", "longer"),
    [
        ({"fragments": ("debug",)}, False, False),
        ({"fragments": ("debug", "kcsan")}, False, True),
        ({"fragments": ("debug", "kasan")}, True, False),
        ({"fragments": ("debug", "kasan"), "arch": "x86_64"}, False, False),
        ({"config": Path("debian.config")}, True, False),
    ],
)
def test_a_kernel_gets_the_words_that_it_needs(changed: dict[str, Any], radix: bool, longer: bool) -> None:
    """By default, KCSAN reported no race at all in 30 switches under load."""
    words = replace(ORDER, **changed).words("quiet").split()
    assert "quiet" in words
    assert ("disable_radix=off" in words) is radix
    assert ("kcsan.udelay_task=2000" in words) is longer


def test_a_guest_boots_the_kernel_with_a_distributions_configuration(tmp_path: Path) -> None:
    booted = Booted(tmp_path, os.getpid(), f"print({str(tmp_path / 'artifact.json')!r})")
    order = replace(ORDER, config=tmp_path / "debian.config")
    proving.Proving(booted, order, tmp_path, lambda _: None).boot(append="quiet")  # type: ignore[arg-type]
    assert booted.words[-1] == order.words("quiet")
    assert booted.words[booted.words.index("--kernel") + 1] == str(tmp_path / "artifact.json")


def test_a_guest_that_is_timed_boots_that_kernel_too(tmp_path: Path) -> None:
    """`lpar-lab up` builds no kernel with a distribution's configuration."""
    booted = Booted(tmp_path, os.getpid(), f"print({str(tmp_path / 'artifact.json')!r})")
    order = replace(ORDER, config=tmp_path / "debian.config")
    proving.Proving(booted, order, tmp_path, lambda _: None).start()  # type: ignore[arg-type]
    assert "--kernel" in booted.words
    assert "--config-from" not in booted.words


def test_a_script_gets_its_options_as_they_are(tmp_path: Path) -> None:
    """SSH gives them to the guest's shell in one line."""
    booted = Booted(tmp_path, os.getpid(), "pass")
    guest = proving.Proving(booted, ORDER, tmp_path, lambda _: None)  # type: ignore[arg-type]
    assert guest.script("smtcontrol", "--interrupt", "A CPU refuses to come online") == []
    *_, line = booted.words
    assert shlex.split(str(line))[2:] == ["smtcontrol", "--interrupt", "A CPU refuses to come online"]


@pytest.mark.parametrize("code", [0, 2])
def test_a_playbooks_tasks_are_progress(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of two hours showed nothing before its end."""
    playbook = tmp_path / "ansible-playbook"
    playbook.write_text(f"#!/bin/sh\necho 'TASK [Measure]'\necho 'the host is gone'\nexit {code}\n")
    playbook.chmod(0o755)
    monkeypatch.setattr(lab, "BIN", tmp_path)
    said: list[str] = []
    guest = proving.Proving(lab.Lab(tmp_path, ROOT), ORDER, tmp_path, said.append)
    if code:
        with pytest.raises(ToolError, match=r"^ab.yml ended with 2: the host is gone") as caught:
            guest.play("ab.yml", {}, 60)
        assert caught.value.code == ExitCode.OPERATION
    else:
        guest.play("ab.yml", {}, 60)
    assert [line.split("s  ")[1] for line in said] == ["TASK [Measure]", "the host is gone"]
    assert (tmp_path / "play.log").read_text() == "TASK [Measure]\nthe host is gone\n"


@pytest.mark.parametrize(
    ("threads", "fault"),
    [("pass", DeadlockError), ("while True: pass", SilenceError)],
    ids=["stands", "runs"],
)
def test_a_silent_script_is_no_hang_of_the_kernel_where_the_emulator_waits_for_itself(
    threads: str, fault: type[ToolError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(deadlock, "SECONDS", 0.5)
    code = (
        f"import threading, time\ndef cpu():\n  {threads}\nthreading.Thread(target=cpu, daemon=True).start()"
    )
    with python(f"{code}\ntime.sleep(60)") as emulator:
        lab = Booted(tmp_path, emulator.pid)
        guest = proving.Proving(lab, ORDER, tmp_path, lambda _: None)  # type: ignore[arg-type]
        with pytest.raises(fault):
            guest.script("stress", silence=2)
        assert lab.script.wait(10)
        emulator.kill()


LINES = ["hello", '{"kind": "sleep", "us": 1}', "asleep", '{"kind": "end"}', "bye"]


def test_records_are_told_from_progress() -> None:
    assert proving.read_records(LINES) == [{"kind": "sleep", "us": 1}, {"kind": "end"}]
    rest = iter(LINES)
    assert list(proving.until_record(rest)) == LINES[:2]
    assert list(proving.until_record(rest)) == LINES[2:4]


def test_kernels_take_turns_every_other_time_backwards() -> None:
    said: list[str] = []
    assert list(proving.in_turns(("stock", "patched"), 3, said.append)) == [
        *("stock", "patched", "patched", "stock", "stock", "patched"),
    ]
    assert said[0] == "boot 1 of 3: stock"


def test_a_bare_guest_runs_the_script_and_tells_how_it_ended() -> None:
    line = bare.command_line(PPC64LE, ("speed", "--modes", "plain legacy"), "loglevel=1")
    assert " loglevel=1 init=/bin/sh -- -c " in line
    assert f"python3 /run/{bare.ARCHIVE} speed --modes 'plain legacy'; echo {bare.ENDED}$?; exec" in line
    assert bare.memory(512) % 256 == 0
    assert bare.memory(512) >= 1024 + 512 * bare.PER_CPU_MB
    assert bare.memory(2, 512) > bare.memory(2)


def test_the_labs_own_fault_is_passed_on() -> None:
    error = lab.failed("up", 6, "[ 1.0 s] waiting\nlpar-lab: error: guest 'x' panicked\n")
    assert (error.code, error.message) == (ExitCode.GUEST, "lpar-lab up: guest 'x' panicked")
    assert lab.failed("up", -9, "").code == ExitCode.INTERNAL


def test_echo_is_what_was_sent() -> None:
    with stress.echo_server() as address:
        host, _, port = address.rpartition(":")
        assert host == stress.HOST_SEEN_BY_GUEST
        with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as link:
            link.sendall(b"hello")
            assert link.recv(16) == b"hello"


def test_rcutortures_own_warning_is_found_by_its_line() -> None:
    allowed = rcutorture.expediting(f"one\ntwo\n\t{rcutorture.EXPEDITING};\n")
    assert allowed == logs.expedited_by_others(3)
    assert "onoff_interval" in rcutorture.parameters(3, own_hotplug=True)
    assert "test_boost=0" in rcutorture.parameters(3, own_hotplug=False)
    assert "shutdown_secs=330" in rcutorture.parameters(3, own_hotplug=False)


def test_rt_tests_are_unpacked_and_a_missing_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    names = [f"usr/{name}" for name in (*rttests.PROGRAMS, *rttests.LIBRARIES)]
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        for name in names:
            tar.add(tmp_path / "file", name)
    assert rttests.unpacked(tmp_path / "root.tar") == {Path(name).name: b"content" for name in names}
    with tarfile.open(tmp_path / "less.tar", "w") as tar:
        tar.add(tmp_path / "file", names[0])
    with pytest.raises(ToolError, match="hold no cyclictest, libcpupower"):
        rttests.unpacked(tmp_path / "less.tar")


def test_a_file_that_no_configuration_compiled_is_told() -> None:
    units = {"kernel/cpu.c": ["kernel/cpu.c"], "kernel/sched/ext.c": ["kernel/sched/build_policy.c"]}
    assert uncovered(units, {"kernel/cpu.o", "kernel/sched/build_policy.o"}) == []
    assert uncovered(units, {"kernel/cpu.o"}) == ["no configuration compiles kernel/sched/ext.c"]
