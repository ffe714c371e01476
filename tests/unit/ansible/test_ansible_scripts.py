"""The scripts that run on the measured host."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_lpar import ANSIBLE

SCRIPTS = {path.stem: path for path in (ANSIBLE / "roles").glob("*/files/*.py")}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS[name])
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *arguments: object, path: str | None = None) -> tuple[int, dict[str, Any]]:
    """Run a script the way the roles do, through standard input; return exit code and answer."""
    done = subprocess.run(
        [sys.executable, "-", *map(str, arguments)],
        input=SCRIPTS[name].read_text(),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path or "/usr/bin:/bin"},
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def tool(directory: Path, name: str, body: str) -> str:
    """Put a shell script named NAME into directory; return a PATH with it in front."""
    directory.mkdir(exist_ok=True)
    command = directory / name
    command.write_text(f"#!/bin/sh\n{body}\n")
    command.chmod(0o755)
    return f"{directory}:/usr/bin:/bin"


@pytest.fixture
def cpus(tmp_path: Path) -> Path:
    """A sysroot with smt/control on and CPUs 0-3 online."""
    directory = tmp_path / "sys/devices/system/cpu"
    (directory / "smt").mkdir(parents=True)
    (directory / "smt/control").write_text("on\n")
    (directory / "online").write_text("0-3\n")
    (directory / "present").write_text("0-3\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("", set()), ("0-1,4-5\n", {0, 1, 4, 5})]
)
def test_cpu_lists(text: str, numbers: set[int]) -> None:
    assert load("smt_state").parse_cpu_list(text) == numbers


def test_switching_to_the_level_that_is_changes_nothing(cpus: Path) -> None:
    code, answer = run("smt_state", f"--sysroot={cpus}", "--level=on", "--exactly=0-3")

    assert (code, answer) == (0, {"changed": False, "online": "0,1,2,3"})


def test_a_switch_that_leaves_the_wrong_cpus_online_names_them(cpus: Path) -> None:
    code, answer = run("smt_state", f"--sysroot={cpus}", "--level=off", "--at-least=0-5")

    assert code == 1
    assert answer["error"] == (
        "SMT was set to 'off' but the wrong CPUs are online: missing 4,5, too many none"
    )
    assert (cpus / "sys/devices/system/cpu/smt/control").read_text() == "off"


def test_single_cpus_are_brought_to_the_exact_state(cpus: Path) -> None:
    directory = cpus / "sys/devices/system/cpu"
    for cpu in range(6):
        (directory / f"cpu{cpu}").mkdir()

    code, answer = run("smt_state", f"--sysroot={cpus}", "--level=on", "--exactly=0-1,4")

    assert (directory / "cpu4/online").read_text() == "1"
    assert [(directory / f"cpu{cpu}/online").read_text() for cpu in (2, 3)] == ["0", "0"]
    assert not (directory / "cpu0/online").exists()
    assert code == 1, "the fake kernel does not act on it, which must show"
    assert "missing 4, too many 2,3" in answer["error"]


def test_a_cpu_that_refuses_is_named(cpus: Path) -> None:
    code, answer = run("smt_state", f"--sysroot={cpus}", "--level=on", "--exactly=0-2")

    assert code == 1
    assert answer["error"].startswith("CPU 3 cannot be brought offline: ")


@pytest.mark.parametrize("control", [None, "notimplemented"])
def test_ppc64_cpu_is_used_where_smt_control_is_no_use(
    cpus: Path, tmp_path: Path, control: str | None
) -> None:
    file = cpus / "sys/devices/system/cpu/smt/control"
    file.unlink() if control is None else file.write_text(control)
    path = tool(tmp_path / "bin", "ppc64_cpu", f'echo "$@" > {tmp_path}/asked')
    code, _ = run("smt_state", f"--sysroot={cpus}", "--level=4", path=path)
    assert code == 0
    assert (tmp_path / "asked").read_text() == "--smt=4\n"

    path = tool(tmp_path / "bin", "ppc64_cpu", "echo refused; exit 3")
    code, answer = run("smt_state", f"--sysroot={cpus}", "--level=4", path=path)
    assert code == 1
    assert answer["error"].endswith("--smt=4 failed with exit code 3: refused")


def expedited(sysroot: Path, value: str) -> tuple[int, dict[str, Any]]:
    return run("rcu_expedited", f"--sysroot={sysroot}", f"--value={value}")


def test_rcu_expedited_is_set_once_and_says_what_it_was(tmp_path: Path) -> None:
    setting = tmp_path / "sys/kernel/rcu_expedited"
    setting.parent.mkdir(parents=True)
    setting.write_text("0\n")

    assert expedited(tmp_path, "1") == (0, {"changed": True, "before": "0"})
    assert setting.read_text() == "1"
    assert expedited(tmp_path, "1") == (0, {"changed": False, "before": "1"})
    assert expedited(tmp_path, "0") == (0, {"changed": True, "before": "1"})
    assert setting.read_text() == "0"


def test_rcu_expedited_that_cannot_be_set_says_why(tmp_path: Path) -> None:
    setting = tmp_path / "sys/kernel/rcu_expedited"
    assert expedited(tmp_path, "1") == (1, {"error": f"{setting}: No such file or directory"})

    setting.parent.mkdir(parents=True)
    setting.write_text("0\n")
    (setting.parent / "rcu_normal").write_text("1\n")
    code, answer = expedited(tmp_path, "1")
    assert (code, "forbids expedited grace periods" in answer["error"]) == (1, True)
    assert setting.read_text() == "0\n"
    assert expedited(tmp_path, "0") == (0, {"changed": False, "before": "0"})


def record(token: str) -> str:
    return json.dumps({"token": token, "owner": f"{token}@desk", "started": "now", "default": {}})


def test_of_many_runs_exactly_one_gets_the_host(tmp_path: Path) -> None:
    lock = tmp_path / "smt-ab/lock.json"
    runs = [
        subprocess.Popen(
            [sys.executable, SCRIPTS["run_lock"], f"--lock={lock}", "--acquire", record(f"run{number}")],
            stdout=subprocess.PIPE,
        )
        for number in range(8)
    ]
    answers = [json.loads(run.communicate()[0]) for run in runs]

    winner = json.loads(lock.read_text())["owner"]
    assert sum("error" not in answer for answer in answers) == 1
    assert {answer["error"] for answer in answers if "error" in answer} == {
        f"{winner} has been using this host since now"
    }
    assert [path.name for path in lock.parent.iterdir()] == ["lock.json"]


def test_only_its_owner_or_a_rollback_gives_a_lock_back(tmp_path: Path) -> None:
    lock = tmp_path / "smt-ab/lock.json"
    assert run("run_lock", f"--lock={lock}", "--acquire", record("mine"))[0] == 0

    code, answer = run("run_lock", f"--lock={lock}", "--release", "yours")
    assert (code, answer["error"]) == (1, "mine@desk has been using this host since now")
    assert lock.exists()

    assert run("run_lock", f"--lock={lock}", "--release", "mine") == (0, {"changed": True})
    assert not lock.parent.exists()
    assert run("run_lock", f"--lock={lock}", "--release", "mine") == (1, {"error": f"{lock} is gone"})

    assert run("run_lock", f"--lock={lock}", "--acquire", record("mine"))[0] == 0
    (lock.parent / "stage").mkdir()
    assert run("run_lock", f"--lock={lock}", "--release", "any")[0] == 0
    assert [path.name for path in lock.parent.iterdir()] == ["stage"]


def test_a_lock_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, answer = run("run_lock", f"--lock={tmp_path}/file/lock.json", "--acquire", record("mine"))

    assert code == 1
    assert f"{tmp_path}/file" in answer["error"]


def test_an_image_with_another_checksum_is_never_loaded(tmp_path: Path) -> None:
    image = tmp_path / "vmlinux"
    image.write_text("torn")
    path = tool(tmp_path / "bin", "kexec", f"touch {tmp_path}/ran")

    code, answer = run("kexec_load", "--sha256=" + "0" * 64, f"--image={image}", path=path)

    assert code == 1
    assert answer["error"].startswith(f"{image} has SHA-256 ")
    assert not (tmp_path / "ran").exists()


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    code, answer = run("kexec_load", "--sha256=0", f"--image={tmp_path}/vmlinux")

    assert (code, answer["error"]) == (1, f"{tmp_path}/vmlinux cannot be read: No such file or directory")
