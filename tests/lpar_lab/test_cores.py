import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplug_common import process
from hotplug_common.guest import deadlock, qemu, ssh
from hotplug_common.paths import Paths
from hotplug_common.process import Finished
from hotplug_host.errors import ExitCode
from lpar_lab import cli, cores, lifecycle, state
from tests.lpar_lab.test_state import GUEST

THREADS = GUEST.threads


class Monitor:
    """Plays QEMU's monitor and the guest's kernel: a machine of 4 places for cores, 2 of them taken."""

    def __init__(self, folder: Path) -> None:
        self.taken = {0: "/machine/unattached/device[0]", 8: "/machine/unattached/device[9]"}
        self.refuses: str | None = None
        self.kernel_follows = True
        self.present = 2
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(folder / qemu.QMP_SOCKET))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            with link, link.makefile("rwb") as stream:
                stream.write(b'{"QMP": {}}\n')
                stream.flush()
                for line in stream:
                    asked = json.loads(line)
                    answer = self._answer(asked["execute"], asked["arguments"])
                    stream.write(b'{"event": "SOMETHING"}\n' + json.dumps(answer).encode() + b"\n")
                    stream.flush()

    def _answer(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        match command:
            case "query-hotpluggable-cpus":
                return {"return": [self._place(core) for core in (24, 16, 8, 0)]}
            case "query-status":
                return {"return": {"status": "running"}}
            case "device_add" | "device_del" if self.refuses:
                return {"error": {"desc": self.refuses}}
            case "device_add":
                assert arguments["driver"] == "power10_v2.0-spapr-cpu-core"
                self.taken[arguments["core-id"]] = f"/machine/peripheral/{arguments['id']}"
            case "device_del" if self.kernel_follows:
                self.taken = {core: path for core, path in self.taken.items() if path != arguments["id"]}
        if self.kernel_follows:
            self.present = len(self.taken)
        return {"return": {}}

    def _place(self, core: int) -> dict[str, Any]:
        path = {"qom-path": self.taken[core]} if core in self.taken else {}
        kind = "power10_v2.0-spapr-cpu-core"
        return {"props": {"core-id": core}, "vcpus-count": THREADS, "type": kind, **path}

    def kernel(self, *_: object) -> Finished | None:
        last = self.present * THREADS - 1
        return Finished(0, f"0-{last}\n0,8\n")


@pytest.fixture
def monitor(paths: Paths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Monitor]:
    folder = paths.guests / GUEST.name
    folder.mkdir(parents=True)
    own = os.getpid()
    state.save(folder, replace(GUEST, pid=own, start_ticks=process.start_ticks(own) or 0))
    monkeypatch.setattr(state, "is_running", lambda _: True)
    monkeypatch.setattr(cli.Paths, "from_environment", lambda: paths)
    monkeypatch.setattr(cores, "POLL_S", 0.01)
    # The path of a socket has to be short.
    monkeypatch.chdir(folder)
    made = Monitor(Path())
    monkeypatch.setattr(ssh, "run", made.kernel)
    yield made
    made.close()


Said = Callable[[], str]


@pytest.fixture
def error(capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda: capsys.readouterr().err


def test_a_core_is_added_and_the_last_one_removed(
    monitor: Monitor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cores", "add", "lab1"]) == 0
    assert "guest 'lab1': CPUs 0-23 are present, 0,8 online" in capsys.readouterr().err
    assert monitor.taken[16] == "/machine/peripheral/core16"
    assert cli.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["cpus"] == 24
    assert cli.main(["cores", "remove", "lab1"]) == 0
    assert list(monitor.taken) == [0, 8]


def test_emulation_gives_each_spare_core_once(monitor: Monitor, error: Said) -> None:
    for action in ("add", "remove", "add"):
        assert cli.main(["cores", action, "lab1"]) == 0
    error()
    assert cli.main(["cores", "add", "lab1"]) == ExitCode.USAGE
    assert "guest 'lab1' has had its 2 spare cores; `lpar-lab up --spare-cores N`" in error()
    assert len(monitor.taken) == 3


def test_kvm_gives_a_core_again_while_a_place_is_free(monitor: Monitor, paths: Paths, error: Said) -> None:
    folder = paths.guests / GUEST.name
    guest = state.load(folder)
    assert guest
    state.save(folder, replace(guest, accel="kvm"))
    for action in ("add", "remove", "add", "add"):
        assert cli.main(["cores", action, "lab1"]) == 0
    assert cli.main(["cores", "add", "lab1"]) == ExitCode.USAGE
    assert "has had its 2 spare cores" in error()


def test_the_last_core_stays(monitor: Monitor, error: Said) -> None:
    assert cli.main(["cores", "remove", "lab1"]) == 0
    error()
    assert cli.main(["cores", "remove", "lab1"]) == ExitCode.USAGE
    assert "guest 'lab1' has one core; add one first" in error()
    assert list(monitor.taken) == [0]


def test_what_qemu_refuses_is_told_in_its_words(monitor: Monitor, error: Said) -> None:
    monitor.refuses = "CPU hotplug not supported"
    assert cli.main(["cores", "add", "lab1"]) == ExitCode.GUEST
    assert "guest 'lab1': device_add: CPU hotplug not supported; lpar-lab console lab1" in error()


def test_what_qemu_said_last_is_told_when_it_ends(
    monitor: Monitor, paths: Paths, error: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = paths.guests / GUEST.name
    (folder / lifecycle.QEMU_LOG).write_text("ERROR: assertion failed\n")
    running = iter([True])
    monkeypatch.setattr(state, "is_running", lambda _: next(running, False))
    (folder / qemu.QMP_SOCKET).unlink()
    assert cli.main(["cores", "add", "lab1"]) == ExitCode.GUEST
    assert "guest 'lab1': QEMU ended: ERROR: assertion failed; lpar-lab down lab1" in error()


@pytest.mark.parametrize("action", cores.ACTIONS)
def test_a_kernel_that_does_not_follow_is_not_waited_for_without_end(
    action: str, monitor: Monitor, error: Said
) -> None:
    monitor.kernel_follows = False
    assert cli.main(["cores", action, "lab1", "--timeout", "0.1"]) == ExitCode.TIMEOUT
    assert f"guest 'lab1' did not {action} the core within 0.1 s; see `lpar-lab console lab1`" in error()


def test_the_guest_has_nothing_to_run_while_qemu_removes_a_core(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flushes of TLBs that come with a command can block QEMU then."""
    asked: list[object] = []
    monkeypatch.setattr(ssh, "run", lambda *words: asked.append(words))
    monitor.kernel_follows = False
    assert cli.main(["cores", "remove", "lab1", "--timeout", "0.1"]) == ExitCode.TIMEOUT
    assert asked == []


def test_an_emulator_that_waits_for_itself_is_no_kernel_that_does_not_follow(
    monitor: Monitor, paths: Paths, error: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = paths.guests / GUEST.name
    guest = state.load(folder)
    assert guest
    monitor.kernel_follows = False
    monkeypatch.setattr(deadlock, "SECONDS", 0.2)
    with subprocess.Popen(["sleep", "60"]) as emulator:
        state.save(folder, replace(guest, pid=emulator.pid))
        assert cli.main(["cores", "remove", "lab1", "--timeout", "20"]) == ExitCode.GUEST
        emulator.kill()
    assert "guest 'lab1': QEMU waits for itself: no CPU of the guest ran for 0.2 s" in error()


def test_the_kernel_is_not_done_before_it_has_the_cpus(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, Finished(0, "0-15\n0-15\n"), Finished(0, "0-23\n0-23\n")])
    monkeypatch.setattr(ssh, "run", lambda *_: next(answers))
    assert cli.main(["cores", "add", "lab1"]) == 0
    assert next(answers, "all asked") == "all asked"


def test_an_x86_guest_keeps_its_cpus(monitor: Monitor, paths: Paths, error: Said) -> None:
    folder = paths.guests / GUEST.name
    guest = state.load(folder)
    assert guest
    state.save(folder, replace(guest, arch="x86_64"))
    assert cli.main(["cores", "add", "lab1"]) == ExitCode.USAGE
    assert "guest 'lab1' is x86_64: its CPUs stay" in error()
