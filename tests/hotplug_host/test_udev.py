from pathlib import Path

import pytest

from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.udev import QUEUE, cpu_rules, wait_until_idle

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


class Stop(StopRequest):
    """Its sleep removes the queue at the call WHEN."""

    def __init__(self, queue: Path, when: int) -> None:
        super().__init__()
        self.queue, self.when, self.slept = queue, when, 0

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        if self.slept == self.when:
            self.queue.unlink()


@pytest.mark.parametrize("when", [0, 1, 3])
def test_waiting_ends_with_the_queue(tmp_path: Path, when: int) -> None:
    put(tmp_path, QUEUE.lstrip("/"), "")
    stop = Stop(tmp_path / QUEUE.lstrip("/"), when)
    if not when:
        stop.queue.unlink()
    waited, idle = wait_until_idle(Sysfs(tmp_path), stop, 60)
    assert idle
    assert waited < 60
    assert stop.slept == when


def test_waiting_ends_with_a_stop_and_with_its_time(tmp_path: Path) -> None:
    put(tmp_path, QUEUE.lstrip("/"), "")
    stop = StopRequest()
    assert wait_until_idle(Sysfs(tmp_path), stop, 0)[1] is False
    stop.count = 1
    assert wait_until_idle(Sysfs(tmp_path), stop, 60)[1] is False
