"""The timer that leaves a kernel that was not confirmed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.hotplug_host.agent.conftest import Step

TIMER = "hotplug-acceleration-fallback.timer"


def test_a_fallback_is_what_systemd_takes_and_goes_without_a_trace(
    tmp_path: Path, step: Step, tool: Callable[[str, str], None]
) -> None:
    units = tmp_path / "etc/systemd/system"
    (units / "sysinit.target.wants").mkdir(parents=True)
    (units / "sysinit.target.wants/theirs.service").symlink_to("/lib/theirs.service")
    called = tmp_path / "called"
    tool("systemctl", f'echo "$*" >> {called}')
    before = sorted(units.rglob("*"))
    arm = ("boot-fallback", "--action=arm", "--release=6.12.9-x", "--seconds=900", f"--sysroot={tmp_path}")
    disarm = ("boot-fallback", "--action=disarm", f"--sysroot={tmp_path}")

    assert step(*disarm) == (0, {"changed": False})
    assert not called.exists()
    for variant, condition in (
        ("patched", "ConditionKernelCommandLine=hotplug_acceleration.variant=patched"),
        ("", "ConditionKernelVersion=6.12.9-x"),
    ):
        assert step(*arm, f"--variant={variant}") == (0, {"changed": True})
        text = (units / TIMER).read_text().splitlines()
        assert condition in text
        assert "OnBootSec=900" in text
    service = (units / "hotplug-acceleration-fallback.service").read_text()
    assert "6.12.9-x was not confirmed within 900 s, rebooting to the default kernel" in service
    for target in ("sysinit", "emergency"):
        link = units / f"{target}.target.wants/{TIMER}"
        assert link.resolve() == units / TIMER
        assert f"/etc/systemd/system/{target}.target.wants/{TIMER}" in service
    verify = ["systemd-analyze", "verify", "--man=no", str(units / TIMER)]
    checked = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")

    assert step(*disarm) == (0, {"changed": True})
    assert sorted(units.rglob("*")) == before
    assert called.read_text().splitlines() == [f"stop {TIMER}", "daemon-reload"]


def test_a_fallback_that_cannot_be_written_is_told(tmp_path: Path, step: Step) -> None:
    (tmp_path / "etc").write_text("")

    assert step("boot-fallback", "--action=arm", "--release=x", f"--sysroot={tmp_path}") == (
        3,
        {"error": f"{tmp_path}/etc/systemd/system: Not a directory"},
    )
