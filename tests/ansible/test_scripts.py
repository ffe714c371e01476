"""The scripts that run on the measured host."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.fakes.fake_lpar import ANSIBLE

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
    lock = tmp_path / "hotplug-acceleration/lock.json"
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
    lock = tmp_path / "hotplug-acceleration/lock.json"
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


BOOT = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def clocks(tmp_path: Path) -> Path:
    """A sysroot with two clocksources, TSC in use."""
    directory = tmp_path / "sys/devices/system/clocksource/clocksource0"
    directory.mkdir(parents=True)
    (directory / "current_clocksource").write_text("tsc\n")
    (directory / "available_clocksource").write_text("tsc hpet acpi_pm \n")
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
    return tmp_path


def clocksource(sysroot: Path, *arguments: object) -> tuple[int, dict[str, Any]]:
    return run("clocksource", f"--sysroot={sysroot}", f"--record={sysroot / 'kept/record'}", *arguments)


def used(sysroot: Path) -> str:
    return (sysroot / "sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()


def kept(sysroot: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((sysroot / "kept/record").read_text())
    return found


def test_the_first_clocksource_comes_back_however_many_were_applied(clocks: Path) -> None:
    assert clocksource(clocks, "--apply=hpet", "--owner=me") == (0, answer("tsc", "hpet"))
    assert kept(clocks) == {"before": "tsc", "applied": "hpet", "boot_id": BOOT, "owner": "me"}
    assert clocksource(clocks, "--apply=hpet") == (0, answer("hpet", "hpet"))
    assert clocksource(clocks, "--apply=acpi_pm") == (0, answer("hpet", "acpi_pm"))
    assert (kept(clocks)["before"], used(clocks)) == ("tsc", "acpi_pm")
    assert clocksource(clocks, "--restore", "--dry-run") == (0, answer("acpi_pm", "tsc"))
    assert clocksource(clocks, "--restore") == (0, answer("acpi_pm", "tsc"))
    assert (used(clocks), (clocks / "kept").exists()) == ("tsc", False)
    assert clocksource(clocks, "--restore") == (0, answer("tsc", "tsc"))


def answer(before: str, now: str) -> dict[str, Any]:
    return {"changed": before != now, "before": before, "now": now}


def test_applying_the_first_one_is_putting_back(clocks: Path) -> None:
    clocksource(clocks, "--apply=hpet")
    assert clocksource(clocks, "--apply=tsc") == (0, answer("hpet", "tsc"))
    assert not (clocks / "kept").exists()


def test_a_dry_run_writes_nothing(clocks: Path) -> None:
    assert clocksource(clocks, "--apply=hpet", "--dry-run") == (0, answer("tsc", "hpet"))
    assert (used(clocks), (clocks / "kept").exists()) == ("tsc", False)
    there = {"error": "this kernel has no clocksource hpte now, it has tsc, hpet, acpi_pm"}
    assert clocksource(clocks, "--apply=hpte", "--dry-run") == (1, there)
    assert clocksource(clocks, "--apply=hpte") == (1, there)


def test_what_is_switched_after_somebody_else_goes_back_to_theirs(clocks: Path) -> None:
    clocksource(clocks, "--apply=hpet")
    (clocks / "sys/devices/system/clocksource/clocksource0/current_clocksource").write_text("acpi_pm\n")
    code, said = clocksource(clocks, "--restore")
    assert (code, used(clocks)) == (1, "acpi_pm")
    assert (
        "says acpi_pm, not the hpet that was applied: somebody else, or the kernel, changed it"
        in said["error"]
    )
    clocksource(clocks, "--apply=tsc")
    assert kept(clocks)["before"] == "acpi_pm"


def test_a_former_clocksource_that_is_gone_is_told(clocks: Path) -> None:
    clocksource(clocks, "--apply=hpet")
    (clocks / "sys/devices/system/clocksource/clocksource0/available_clocksource").write_text(
        "hpet acpi_pm\n"
    )
    assert clocksource(clocks, "--restore") == (
        1,
        {"error": "this kernel has no clocksource tsc now, it has hpet, acpi_pm"},
    )
    assert (used(clocks), kept(clocks)["before"]) == ("hpet", "tsc")


@pytest.mark.parametrize("text", ["{", "[]", '{"before": "hpet"}', None])
def test_a_record_of_another_boot_or_a_damaged_one_is_void(clocks: Path, text: str | None) -> None:
    clocksource(clocks, "--apply=hpet")
    (clocks / "kept/record").write_text(text or json.dumps(kept(clocks) | {"boot_id": "another"}))
    assert clocksource(clocks, "--restore") == (0, answer("hpet", "hpet"))
    assert not (clocks / "kept").exists()


def test_a_clocksource_that_is_not_taken_or_left_again_is_put_back_with_its_record(
    clocks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("clocksource")
    host = module.Host(clocks, clocks / "kept/record")
    module.apply(host, "hpet", "me", 0)
    before = kept(clocks)

    def stubborn(self: Path, text: str, **options: Any) -> int:
        # As the kernel does with one unfit for high-resolution timers: nothing changes, and that is no error.
        return write(self, "hpet" if self == host.file and text == "acpi_pm" else text, **options)

    write = Path.write_text
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", stubborn)
        with pytest.raises(module.SwitchError, match="says hpet after acpi_pm was written to it"):
            module.apply(host, "acpi_pm", "me", 0)
    assert (used(clocks), kept(clocks)) == ("hpet", before)

    monkeypatch.setattr(module.time, "sleep", lambda seconds: host.file.write_text("tsc"))
    with pytest.raises(module.SwitchError, match="the kernel left acpi_pm for tsc within 2 s"):
        module.apply(host, "acpi_pm", "me", 2)
    assert (used(clocks), kept(clocks)) == ("hpet", before)


def test_switching_waits_for_no_clock_check_that_is_at_work(clocks: Path) -> None:
    with (clocks / "sys/devices/system/clocksource/clocksource0/current_clocksource").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        code, said = clocksource(clocks, "--apply=hpet")
    assert (code, said["error"]) == (1, "clock-check --clocksource is at work, wait until it is done")
    assert used(clocks) == "tsc"


def test_without_clocksources_the_missing_file_is_named(tmp_path: Path) -> None:
    code, said = clocksource(tmp_path, "--restore")
    assert code == 1
    assert said["error"].endswith("current_clocksource: No such file or directory")


def test_a_fallback_is_what_systemd_takes_and_goes_without_a_trace(tmp_path: Path) -> None:
    units = tmp_path / "etc/systemd/system"
    (units / "sysinit.target.wants").mkdir(parents=True)
    (units / "sysinit.target.wants/theirs.service").symlink_to("/lib/theirs.service")
    called = tmp_path / "called"
    path = tool(tmp_path / "bin", "systemctl", f'echo "$*" >> {called}\n')
    before = sorted(units.rglob("*"))
    arm = ("--action=arm", "--release=6.12.9-x", "--seconds=900", f"--sysroot={tmp_path}")
    disarm = ("--action=disarm", f"--sysroot={tmp_path}")

    assert run("boot_fallback", *disarm, path=path) == (0, {"changed": False})
    assert not called.exists()
    for variant, condition in (
        ("patched", "ConditionKernelCommandLine=hotplug_acceleration.variant=patched"),
        ("", "ConditionKernelVersion=6.12.9-x"),
    ):
        assert run("boot_fallback", *arm, f"--variant={variant}", path=path) == (0, {"changed": True})
        text = (units / "hotplug-acceleration-fallback.timer").read_text().splitlines()
        assert condition in text
        assert "OnBootSec=900" in text
    for target in ("sysinit", "emergency"):
        link = units / f"{target}.target.wants/hotplug-acceleration-fallback.timer"
        assert link.resolve() == units / "hotplug-acceleration-fallback.timer"
        service = (units / "hotplug-acceleration-fallback.service").read_text()
        assert f"/etc/systemd/system/{target}.target.wants/hotplug-acceleration-fallback.timer" in service
    verify = ["systemd-analyze", "verify", "--man=no", str(units / "hotplug-acceleration-fallback.timer")]
    checked = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")

    assert run("boot_fallback", *disarm, path=path) == (0, {"changed": True})
    assert sorted(units.rglob("*")) == before
    assert called.read_text().splitlines() == ["stop hotplug-acceleration-fallback.timer", "daemon-reload"]


def test_a_fallback_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("")

    code, answer = run("boot_fallback", "--action=arm", "--release=x", f"--sysroot={tmp_path}")

    assert code == 1
    assert answer == {"changed": False, "error": f"{tmp_path}/etc/systemd/system: Not a directory"}
