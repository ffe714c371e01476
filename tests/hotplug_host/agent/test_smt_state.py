"""Bringing a host to an SMT level and an exact set of online CPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hotplug_host.agent.smt_state import switch
from hotplug_host.errors import ToolError
from tests.fakes.fakehost import FakeHost, FakeSysfs
from tests.hotplug_host.agent.conftest import Step


@pytest.fixture
def cpus(tmp_path: Path) -> Path:
    """A sysroot with smt/control on and CPUs 0-3 online, whose files are only files."""
    directory = tmp_path / "sys/devices/system/cpu"
    (directory / "smt").mkdir(parents=True)
    (directory / "smt/control").write_text("on\n")
    (directory / "online").write_text("0-3\n")
    (directory / "present").write_text("0-3\n")
    return tmp_path


def cpu_files(root: Path, *cpus: int) -> list[Path]:
    files = [root / f"sys/devices/system/cpu/cpu{cpu}/online" for cpu in cpus]
    for file in files:
        file.parent.mkdir()
        file.write_text("?")
    return files


def test_switching_to_the_level_that_is_changes_nothing(cpus: Path, step: Step) -> None:
    assert step("smt-state", f"--sysroot={cpus}", "--level=on", "--exactly=0-3") == (
        0,
        {"changed": False, "online": "0-3", "level": "on"},
    )


def test_a_switch_that_leaves_the_wrong_cpus_online_names_them(cpus: Path, step: Step) -> None:
    (cpus / "sys/devices/system/cpu/present").write_text("0-5\n")

    code, answer = step("smt-state", f"--sysroot={cpus}", "--level=off", "--at-least=0-5")

    assert code == 5
    assert answer["error"] == (
        "SMT was set to 'off' but the wrong CPUs are online: missing 4-5, too many none"
    )
    assert (cpus / "sys/devices/system/cpu/smt/control").read_text() == "off"


def test_single_cpus_are_brought_to_the_exact_state(cpus: Path, step: Step) -> None:
    first, third, fourth, fifth = cpu_files(cpus, 0, 2, 3, 4)
    (cpus / "sys/devices/system/cpu/present").write_text("0-4\n")

    code, answer = step("smt-state", f"--sysroot={cpus}", "--level=on", "--exactly=0-1,4")

    assert [file.read_text() for file in (first, third, fourth, fifth)] == ["?", "0", "0", "1"]
    assert code == 5, "the fake kernel does not act on it, which must show"
    assert "missing 4, too many 2-3" in answer["error"]


def test_a_cpu_that_refuses_is_named_and_does_not_keep_the_others(cpus: Path, step: Step) -> None:
    (third,) = cpu_files(cpus, 2)

    code, answer = step("smt-state", f"--sysroot={cpus}", "--level=on", "--exactly=0")

    assert (code, third.read_text()) == (5, "0")
    assert answer["error"].startswith("SMT was set to 'on' but the wrong CPUs are online")
    assert "cpu1/online: No such file or directory" in answer["error"]


@pytest.mark.parametrize("control", [None, "notimplemented"])
def test_ppc64_cpu_is_used_where_smt_control_is_no_use(
    cpus: Path, tmp_path: Path, step: Step, tool: Callable[[str, str], None], control: str | None
) -> None:
    file = cpus / "sys/devices/system/cpu/smt/control"
    file.unlink() if control is None else file.write_text(control)
    level = tmp_path / "level"
    level.write_text("SMT=8\n")
    notes = f'echo "$1" >> {tmp_path}/asked'
    tool("ppc64_cpu", f"{notes}; case $1 in --smt=*) echo SMT=${{1#*=}} > {level};; *) cat {level};; esac")
    code, answer = step("smt-state", f"--sysroot={cpus}", "--level=4")
    assert (code, answer["changed"], answer["level"]) == (0, True, "4")
    assert (tmp_path / "asked").read_text() == "--smt\n--smt=4\n--smt\n", "which level it had, and has now"

    tool("ppc64_cpu", "echo refused; exit 3")
    code, answer = step("smt-state", f"--sysroot={cpus}", "--level=4")
    assert code == 5
    assert answer["error"].endswith("--smt=4 failed with exit code 3: refused")


def test_a_host_without_second_threads_is_left_alone(tmp_path: Path, step: Step) -> None:
    cpus = tmp_path / "sys/devices/system/cpu"
    (cpus / "smt").mkdir(parents=True)
    (cpus / "smt/control").write_text("notsupported\n")
    (cpus / "online").write_text("0-1\n")
    (cpus / "present").write_text("0-3\n")
    smt = ("smt-state", f"--sysroot={tmp_path}", "--level=on")
    assert step(*smt, "--exactly=0-1") == (0, {"changed": False, "online": "0-1", "level": "notsupported"})
    assert step(*smt, "--at-least=0-3")[0] == 5


def test_the_exact_cpus_come_back_on_a_host_that_acts(host: FakeHost) -> None:
    """Of 2 cores x SMT4: the level, and a core's threads that the level alone would not leave so."""
    fs = FakeSysfs(host)
    assert switch(fs, "2", None, frozenset({0, 4})) == {0, 1, 4, 5}
    assert switch(fs, "on", frozenset({0, 1, 2, 5}), frozenset()) == {0, 1, 2, 5}
    assert host.control == "on"
    host.stick(7)
    with pytest.raises(ToolError, match=r"missing 7, too many none \(.*Device or resource busy\)"):
        switch(fs, "on", frozenset({0, 1, 2, 5, 7}), frozenset())


def test_a_core_that_was_added_meanwhile_stays_online(host: FakeHost) -> None:
    was = host.online
    host.add_core(online=True)
    fs = FakeSysfs(host)

    assert switch(fs, "on", was, frozenset(), was) == host.present
    assert not [name for name, _ in fs.writes if name.endswith("/online")]


def test_a_core_that_was_removed_meanwhile_is_not_asked_for(host: FakeHost) -> None:
    """And keeps no other CPU from being brought back."""
    was = host.online
    host.set_cpu(1, online=False)
    host.remove_core()

    fs = FakeSysfs(host)
    assert switch(fs, "on", was, frozenset(), was) == host.present
    assert switch(fs, "on", None, was) == host.present
    assert host.present < was
