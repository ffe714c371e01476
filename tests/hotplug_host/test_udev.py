from pathlib import Path

import pytest

from hotplug_host import udev
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.udev import cpu_rules, wait_until_idle

KDUMP = """SUBSYSTEM=="memory", ACTION=="online", PROGRAM="/usr/sbin/kdump-config try-reload"
SUBSYSTEM=="cpu", ACTION=="online", PROGRAM="/usr/sbin/kdump-config try-reload"
"""
"""Two of the rules of Debian's kdump-tools 1.10.7."""
RHEL = """ACTION=="add", SUBSYSTEM=="cpu", GOTO="kdump_reload_cpu"
SUBSYSTEM=="cpu", ACTION=="offline|online", \\
  RUN+="/bin/sh -c '/usr/bin/systemd-run --quiet --no-block /usr/lib/udev/kdump-udev-throttler'"
"""
"""In the manner of kexec-tools of RHEL, with a line that goes on."""


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("text", [KDUMP, RHEL, 'SUBSYSTEM=="cpu", RUN{program}+="/bin/true"\n'])
def test_a_rule_that_runs_a_program_for_a_cpu(tmp_path: Path, text: str) -> None:
    put(tmp_path, "usr/lib/udev/rules.d/50-one.rules", text)
    assert cpu_rules(Sysfs(tmp_path)) == ("50-one.rules",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'SUBSYSTEM=="memory", ACTION=="online", PROGRAM="/usr/sbin/kdump-config try-reload"\n',
        '# SUBSYSTEM=="cpu", ACTION=="online", PROGRAM="/usr/sbin/kdump-config try-reload"\n',
        'SUBSYSTEM=="cpu", ACTION=="add", RUN+="/bin/true"\n',
        'SUBSYSTEM=="cpu", ACTION=="online", TEST=="/sys/x", ENV{A}="1"\n',
        'SUBSYSTEM=="cpu", RUN{builtin}+="kmod load x"\n',
        'SUBSYSTEM=="cpuid", RUN+="/bin/true"\n',
    ],
)
def test_other_rules(tmp_path: Path, text: str) -> None:
    put(tmp_path, "usr/lib/udev/rules.d/50-one.rules", text)
    assert cpu_rules(Sysfs(tmp_path)) == ()


def test_an_operators_file_hides_the_packages(tmp_path: Path) -> None:
    for name in ("50-one.rules", "60-two.rules"):
        put(tmp_path, f"usr/lib/udev/rules.d/{name}", KDUMP)
    (tmp_path / "etc/udev/rules.d").mkdir(parents=True)
    (tmp_path / "etc/udev/rules.d/50-one.rules").symlink_to("/dev/null")
    assert cpu_rules(Sysfs(tmp_path)) == ("60-two.rules",)


@pytest.fixture
def udevadm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of those events that are left; each look at them takes one."""
    left = tmp_path / "left"
    program = tmp_path / "bin/udevadm"
    put(
        tmp_path,
        "bin/udevadm",
        f"""#!/bin/sh
test "$*" = "settle --timeout=1" || exit 9
read number < {left}
test "$number" = 0 && exit 0
echo $((number - 1)) > {left}
exit 1
""",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    return left


@pytest.mark.parametrize("events", [0, 1, 3])
def test_waiting_ends_with_the_events(udevadm: Path, events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udev, "PAUSE_S", 0.01)
    udevadm.write_text(f"{events}\n")
    waited, idle = wait_until_idle(Sysfs(), StopRequest(), 60)
    assert idle
    assert waited < 60
    assert udevadm.read_text() == "0\n"


def test_waiting_ends_with_a_stop_and_with_its_time(udevadm: Path) -> None:
    udevadm.write_text("1000000\n")
    stop = StopRequest()
    assert wait_until_idle(Sysfs(), stop, 0.1)[1] is False
    left = udevadm.read_text()
    assert left != "1000000\n"
    stop.count = 1
    assert wait_until_idle(Sysfs(), stop, 60)[1] is False
    assert udevadm.read_text() == left


def test_one_that_fails_at_once_is_asked_once_a_second(udevadm: Path) -> None:
    udevadm.write_text("1000000\n")
    waited, idle = wait_until_idle(Sysfs(), StopRequest(), 1.2)
    assert not idle
    assert waited >= 1.2
    assert udevadm.read_text() in {"999998\n", "999999\n"}


def test_a_host_without_udev_and_a_tree_are_idle(
    tmp_path: Path, udevadm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    udevadm.write_text("1000000\n")
    assert wait_until_idle(Sysfs(tmp_path), StopRequest(), 60)[1]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("hotplug_host.programs.ADMINISTRATORS", ())
    assert wait_until_idle(Sysfs(), StopRequest(), 60)[1]
