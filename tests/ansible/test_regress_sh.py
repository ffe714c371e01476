"""regress.sh: its exit code, and that of two runs one goes on. The playbook itself is made up here."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hotplug_timer.history.entry import Entry, failure
from tests.fakes.fake_lpar import ANSIBLE, BIN
from tests.samples.histories import NOISES, history, nights, write

STEADY = history(nights(1, NOISES["bad nights"]))
SLOWER = history(nights(1, NOISES["bad nights"], step_at=78))
DOWN = failure("madeup1", "patched", "2026-12-24T02:00:00Z", "no SSH after the reboot")


@dataclass(frozen=True)
class Controller:
    """A directory for runs, and an ansible-playbook that does as it is told."""

    folder: Path

    @property
    def directory(self) -> Path:
        return self.folder / "regress"

    def playbook(self, script: str) -> None:
        program = self.folder / "bin/ansible-playbook"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {self.folder}/arguments\n{script}\n')
        program.chmod(0o755)

    def arguments(self) -> list[str]:
        path = self.folder / "arguments"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{BIN}:/usr/bin:/bin"}
        command = [str(ANSIBLE / "regress.sh"), *map(str, words or (self.directory, "-e", "@regress.json"))]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    made = Controller(tmp_path)
    made.playbook("exit 0")
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entries", "code"),
    [
        pytest.param(STEADY, 0, id="steady", marks=pytest.mark.slow),
        pytest.param(SLOWER, 8, id="regression"),
        pytest.param([*STEADY, DOWN], 5, id="failed", marks=pytest.mark.slow),
        pytest.param(STEADY[:9], 9, id="short", marks=pytest.mark.slow),
    ],
)
def test_it_ends_as_the_history_is(controller: Controller, entries: list[Entry], code: int) -> None:
    write(controller.directory / "history", entries)

    done = controller.run()

    assert done.returncode == code, done.stderr
    assert "madeup1" in done.stdout
    assert controller.arguments() == [
        str(ANSIBLE / "playbooks/regress.yml"),
        "-e",
        "@regress.json",
        "-e",
        f"regress_dir={controller.directory}",
        "-e",
        "regress_verdict_fails=false",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("playbook", "code"), [(2, 3), (4, 3), (5, 3), (8, 3), (99, 130)])
def test_a_run_that_did_not_get_to_its_end_is_no_verdict(
    controller: Controller, playbook: int, code: int
) -> None:
    """Whatever the history of earlier runs says: ansible-playbook's own 5 and 8 mean something else."""
    write(controller.directory / "history", STEADY)
    controller.playbook(f"exit {playbook}")

    done = controller.run()

    assert (done.returncode, done.stdout) == (code, "")
    assert "regress: error: " in done.stderr


@pytest.mark.slow
def test_a_night_without_a_new_kernel_is_well(controller: Controller) -> None:
    """Though the history has a regression: it was reported when it was found."""
    write(controller.directory / "history", SLOWER)
    controller.playbook(f"printf 'stock=1\\npatched=2\\n' > {controller.directory}/nothing-timed")

    done = controller.run()

    assert (done.returncode, done.stdout) == (
        0,
        "regress: nothing was timed: the newest kernels were measured before: stock=1 patched=2\n",
    )

    controller.playbook("exit 0")
    assert controller.run().returncode == 8, "it is of that run only"


@pytest.mark.parametrize(("minutes", "day"), [(-1, 1), (2, 0)])
def test_no_host_begins_after_a_time_of_the_day(controller: Controller, minutes: int, day: int) -> None:
    """A time that has been today is tomorrow's."""
    wanted = (datetime.now() + timedelta(minutes=minutes)).strftime("%H:%M")
    before = (datetime.now() + timedelta(minutes=minutes)).date()
    controller.run(controller.directory, "--until", wanted, "-e", "@regress.json")
    assert controller.arguments()[-1] == f"fleet_window_end={before + timedelta(days=day)}T{wanted}"
    assert "--until" not in controller.arguments()


def test_the_window_may_end_on_another_day(controller: Controller) -> None:
    controller.run(controller.directory, "--until", "2031-02-03T04:30")
    assert controller.arguments()[-1] == "fleet_window_end=2031-02-03T04:30"


@pytest.mark.parametrize("wanted", ["24:00", "6", "", "--help", "06:00; true"])
def test_what_is_no_time_is_refused(controller: Controller, wanted: str) -> None:
    done = controller.run(controller.directory, "--until", wanted)
    assert done.returncode == 2
    assert f"'{wanted}' is no time; give HH:MM or YYYY-MM-DDTHH:MM" in done.stderr
    assert controller.arguments() == []


def test_of_two_runs_one_goes_on(controller: Controller) -> None:
    controller.directory.mkdir()
    with (controller.directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = controller.run()
    assert done.returncode == 3
    assert f"another run is at work in {controller.directory}; wait for it" in done.stderr
    assert controller.arguments() == []


@pytest.mark.slow
def test_what_ssh_leaves_behind_does_not_hold_the_next_run(controller: Controller) -> None:
    write(controller.directory / "history", STEADY)
    controller.playbook(f"sleep 60 >/dev/null 2>&1 & echo $! > {controller.folder}/master")
    assert controller.run().returncode == 0
    master = int((controller.folder / "master").read_text())
    try:
        assert Path(f"/proc/{master}").exists(), "otherwise this test is none"
        began = time.monotonic()
        assert controller.run().returncode == 0
        assert time.monotonic() - began < 50
    finally:
        for one in {master, int((controller.folder / "master").read_text())}:
            os.kill(one, 9)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("regress",), 2, "name the directory by its absolute path"),
        (("-e", "a=b"), 2, "name the directory by its absolute path"),
        (("/srv/a b",), 2, "/srv/a b has characters other than"),
        (("/proc/regress",), 3, "cannot make /proc/regress; name another"),
        (("--help",), 0, ""),
    ],
)
def test_what_it_refuses(controller: Controller, words: tuple[str, ...], code: int, said: str) -> None:
    done = controller.run(*words)

    assert done.returncode == code
    assert said in done.stderr
    assert ("Usage: ansible/regress.sh" in done.stdout + done.stderr) == (said.startswith("name") or not code)
    assert controller.arguments() == []
