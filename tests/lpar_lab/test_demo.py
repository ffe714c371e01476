import time
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common import arch, process
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import demo, lifecycle
from smt_fleet import cli as smt_fleet
from tests.lpar_lab.test_lifecycle import DISK, KERNEL

PANIC = "[   12.345678] Kernel panic - not syncing: Fatal exception"


@pytest.fixture
def settings(tmp_path: Path) -> demo.Settings:
    return demo.Settings(
        arch=arch.PPC64LE,
        line="6.12",
        cores=2,
        threads=8,
        memory=None,
        accel="tcg",
        timeout=None,
        fragments=(),
        boots=4,
        iterations=5,
        settle_s=0.2,
        output=tmp_path / "out",
    )


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace every stage by its name in a list."""
    done: list[str] = []
    patched = replace(KERNEL, variant="patched")
    monkeypatch.setattr(lifecycle, "check_request", lambda *_: None)
    monkeypatch.setattr(demo, "_check_inputs", lambda *_: None)
    monkeypatch.setattr(demo.Tools, "find", lambda: demo.Tools("hotplug-timer", "smt-fleet"))
    monkeypatch.setattr(demo, "_build_kernels", lambda *_: done.append("kernels") or [KERNEL, patched])
    monkeypatch.setattr(demo.rootfs, "build", lambda *_: done.append("rootfs") or DISK)
    monkeypatch.setattr(lifecycle, "up", lambda *_: done.append("up"))
    monkeypatch.setattr(lifecycle, "down", lambda *_: done.append("down"))
    monkeypatch.setattr(demo, "_timer", lambda *_: process.Finished(0, ""))
    monkeypatch.setattr(demo, "_predict", lambda *_: done.append("predict"))
    monkeypatch.setattr(demo, "_measure", lambda *_, **__: done.append("measure"))
    monkeypatch.setattr(demo, "_report", lambda *_: done.append("report"))
    return done


def test_stages_in_order(settings: demo.Settings, paths: Paths, said: list[str], stages: list[str]) -> None:
    stale = [
        settings.output / name for name in ("raw/old.jsonl", "smt-fleet/old/plan.json", "costs/costs.jsonl")
    ]
    for file in stale:
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    assert demo.run(settings, paths, said.append) == ExitCode.OK
    assert stages == ["kernels", "rootfs", "up", "predict", "measure", "down", "report"]
    assert not any(file.exists() for file in stale), "an earlier demo's results are not mixed in"


@pytest.mark.parametrize("fault", [ToolError("x", code=ExitCode.OPERATION), KeyboardInterrupt()])
def test_the_guest_goes_down_whatever_happens(  # noqa: PLR0917 - fixtures
    settings: demo.Settings,
    paths: Paths,
    said: list[str],
    stages: list[str],
    monkeypatch: pytest.MonkeyPatch,
    fault: BaseException,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(demo, "_measure", fail)
    with pytest.raises(type(fault)):
        demo.run(settings, paths, said.append)
    assert stages == ["kernels", "rootfs", "up", "predict", "down"]


def test_smt_fleet_takes_what_the_demo_asks_for(settings: demo.Settings, tmp_path: Path) -> None:
    """Both kernels in order, results where the report looks for them, and the run beside it."""
    kernels = []
    for name in ("stock", "patched"):
        (tmp_path / name).mkdir()
        kernels.append(replace(KERNEL, variant=name, image=tmp_path / name / "vmlinux"))
        kernels[-1].file.write_text("{}")
    inventory = tmp_path / "lab.yml"
    inventory.write_text("")

    words = demo.fleet_words(settings, kernels, Path("/srv/t.pyz"))
    plan = smt_fleet.ab_plan(smt_fleet.build_parser().parse_args([*words, "-i", str(inventory)]))

    assert (plan.limit, plan.arguments) == (
        "demo",
        [
            "-e",
            "ab_timer_bundle=/srv/t.pyz",
            "-e",
            "ab_settle=0.2",
            "-e",
            "ab_fallback=false",
            "-e",
            "ab_health=false",
        ],
    )
    assert {name: value for name, value in plan.variables.items() if name.startswith("ab_")} == {
        "ab_variants": [{"name": kernel.variant, "artifact": str(kernel.file)} for kernel in kernels],
        "ab_iterations": 5,
        "ab_repeat": 2,
        "ab_results_dir": str(settings.output),
        "ab_max_fail_percentage": 0,
    }
    assert f"{settings.output}/smt-fleet" in words


@pytest.mark.parametrize(
    ("console_line", "running", "playbook", "code", "words"),
    [
        (
            PANIC,
            True,
            "exec sleep 60",
            ExitCode.GUEST,
            "the guest's kernel failed while it was measured: Kern",
        ),
        ("", False, "exec sleep 60", ExitCode.GUEST, "QEMU ended while the guest was measured"),
        (PANIC, True, "exit 2", ExitCode.GUEST, "the guest's kernel failed while it was measured: Kern"),
        (
            "",
            True,
            "echo 'fatal: [demo]: FAILED!'; exit 2",
            ExitCode.OPERATION,
            "ended with 2: fatal: .demo.: ",
        ),
    ],
)
def test_why_a_measurement_failed(  # noqa: PLR0917 - fixtures
    settings: demo.Settings,
    paths: Paths,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    console_line: str,
    running: bool,
    playbook: str,
    code: ExitCode,
    words: str,
) -> None:
    monkeypatch.setattr(process, "TICK_S", 0.05)
    guest = paths.guests / "demo"
    guest.mkdir(parents=True)
    (guest / "console.log").write_text(console_line + "\n")
    monkeypatch.setattr(lifecycle, "running", lambda _: [(guest, None)] if running else [])
    settings.output.mkdir()
    command = settings.output / "smt-fleet"
    command.write_text(f"#!/bin/sh\n{playbook}\n")
    command.chmod(0o755)
    began = time.monotonic()
    with pytest.raises(ToolError, match=words) as caught:
        tools = demo.Tools("true", str(command))
        demo._measure(settings, [], tools, paths, said.append, bundle=Path("t.pyz"))
    assert caught.value.code is code
    assert time.monotonic() - began < 30, "a lost guest is not waited for"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[ERROR]: Task failed: first, rescued\n[ERROR]: Task failed: last\nOrigin: x\n",
            "Task failed: last",
        ),
        ("fatal: [demo]: UNREACHABLE! =>\n    msg: gone\nPLAY RECAP\n", "fatal: [demo]: UNREACHABLE! =>"),
        ("ERROR! the playbook could not be found\n", "ERROR! the playbook could not be found"),
        ("", "no output"),
    ],
)
def test_ansibles_reason(text: str, reason: str) -> None:
    assert demo.ansible_reason(text) == reason


def test_no_results_is_an_input_fault(settings: demo.Settings, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no result files"):
        demo._report(settings, tmp_path, demo.Tools("hotplug-timer", "smt-fleet"), lambda _: None)


def test_current_task_comes_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    assert demo._current_task(log) == "ansible: starting"
    log.write_text("PLAY [all] ***\nTASK [Gathering Facts] ***\nok: [demo]\n")
    assert demo._current_task(log) == "ansible: Gathering Facts"
