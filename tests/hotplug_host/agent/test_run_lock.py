"""Taking a host for one run, and giving it back."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hotplug_host.agent.run_lock import acquire
from hotplug_host.errors import ToolError
from tests.hotplug_host.agent.conftest import Step


def record(token: str) -> dict[str, object]:
    return {"token": token, "owner": f"{token}@desk", "started": "now", "default": {}}


def take(step: Step, lock: Path, token: str) -> tuple[int, dict[str, object]]:
    return step("run-lock", f"--lock={lock}", "--acquire", json.dumps(record(token)))


def give(step: Step, lock: Path, token: str) -> tuple[int, dict[str, object]]:
    return step("run-lock", f"--lock={lock}", "--release", token)


def test_of_many_runs_exactly_one_gets_the_host(tmp_path: Path) -> None:
    """Each in a process of its own, held back until all are there."""
    lock = tmp_path / "staging/lock.json"
    gate, opens = os.pipe()
    runs = []
    for number in range(8):
        pid = os.fork()
        if pid == 0:
            os.close(opens)
            os.read(gate, 1)
            told = ""
            try:
                acquire(lock, record(f"run{number}"))
            except ToolError as error:
                told = str(error)
            finally:
                (tmp_path / f"told{number}").write_text(told)
                os._exit(0)
        runs.append(pid)
    os.close(opens)
    for pid in runs:
        os.waitpid(pid, 0)
    os.close(gate)
    told = [(tmp_path / f"told{number}").read_text() for number in range(8)]

    winner = json.loads(lock.read_text())["owner"]
    assert told.count("") == 1
    assert set(told) - {""} == {f"{winner} has been using this host since now"}
    assert sorted(path.name for path in lock.parent.iterdir()) == ["lease.json", "lock.json"]


def test_only_its_owner_or_a_rollback_gives_a_lock_back(tmp_path: Path, step: Step) -> None:
    lock = tmp_path / "staging/lock.json"
    assert take(step, lock, "mine") == (0, {"changed": True})

    assert give(step, lock, "yours") == (
        3,
        {"error": "mine@desk has been using this host since now", "token": "mine"},
    )
    assert lock.exists()

    assert give(step, lock, "mine") == (0, {"changed": True})
    assert not lock.parent.exists()
    assert give(step, lock, "mine") == (3, {"error": f"{lock} is gone"})

    assert take(step, lock, "mine")[0] == 0
    (lock.parent / "stage").mkdir()
    assert give(step, lock, "any")[0] == 0
    assert [path.name for path in lock.parent.iterdir()] == ["stage"]


def test_a_damaged_lock_is_held_by_an_unknown_run(tmp_path: Path, step: Step) -> None:
    lock = tmp_path / "lock.json"
    lock.write_text("{")
    unknown = {"error": "unknown has been using this host since unknown", "token": "unknown"}
    assert take(step, lock, "mine") == (3, unknown)
    assert give(step, lock, "mine") == (3, unknown)
    assert give(step, lock, "any")[0] == 0


def test_a_lock_that_cannot_be_written_says_so(tmp_path: Path, step: Step) -> None:
    (tmp_path / "file").write_text("")

    code, answer = take(step, tmp_path / "file/lock.json", "mine")

    assert code == 3
    assert f"{tmp_path}/file" in str(answer["error"])
