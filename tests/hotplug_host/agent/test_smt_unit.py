"""A switch in a unit of the host: what starts it, what takes its answer, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from tests.hotplug_host.agent.conftest import Step

Unit = Callable[..., tuple[int, dict[str, object]]]

ANSWER = {"operation": "smt=off", "changed": True, "seconds": 3.0, "said": ["smt=off: done"]}


@pytest.fixture
def sysroot(tmp_path: Path) -> Path:
    """CPUs 0-7 are there, 0 and 4 are online."""
    cpus = tmp_path / "sys/devices/system/cpu"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text("0,4\n")
    boot_id = tmp_path / "proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("this\n")
    return tmp_path


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    """A directory with the lock of a run."""
    folder = tmp_path / "staging"
    folder.mkdir()
    (folder / "lock.json").write_text(json.dumps({"owner": "root@desk", "started": "now", "token": "t"}))
    return folder


@pytest.fixture
def unit(step: Step, sysroot: Path, staging: Path) -> Unit:
    """Call the step."""

    def call(action: str, *words: str) -> tuple[int, dict[str, object]]:
        return step("smt-unit", f"--action={action}", f"--staging={staging}", f"--sysroot={sysroot}", *words)

    return call


def begin(unit: Unit, program: Path, **record: str) -> None:
    program.write_text("the program")
    state = {"boot_id": "this", "smt_level": "on", "online": "0-7"} | record
    words = (f"--program={program}", "--timeout=900", f"--record={json.dumps(state)}", "--", "off", "--json")
    assert unit("start", *words) == (0, {"changed": True})


def test_the_program_runs_as_a_unit_that_writes_its_answer(
    unit: Unit,
    tool: Callable[[str, str], None],
    staging: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool("systemd-run", f'printf "%s\\n" "$@" > {tmp_path}/called')
    monkeypatch.setenv("HOTPLUG_RUN", "t:/lock.json")

    begin(unit, tmp_path / "program")

    called = (tmp_path / "called").read_text().splitlines()
    folder = staging / "stage/switch"
    assert "--unit=hotplug-acceleration-switch.service" in called
    assert "--property=TimeoutStopSec=900" in called
    assert "--setenv=HOTPLUG_RUN=t:/lock.json" in called
    assert f"--property=StandardOutput=file:{folder}/answer.json" in called
    assert called[-4:] == [str(folder / "hotplug-timer.pyz"), "smt", "off", "--json"]
    assert (folder / "hotplug-timer.pyz").read_text() == "the program"
    assert json.loads((staging / "applied.json").read_text())["online"] == "0-7"

    # A second switch of this boot leaves the way back to before the first one.
    begin(unit, tmp_path / "program", online="0,4")
    assert json.loads((staging / "applied.json").read_text())["online"] == "0-7"


def test_a_unit_that_systemd_refuses(unit: Unit, tool: Callable[[str, str], None], tmp_path: Path) -> None:
    tool("systemd-run", "echo Failed: no bus >&2; exit 1")
    (tmp_path / "program").touch()
    assert unit("start", f"--program={tmp_path / 'program'}", "--record={}", "--", "off") == (
        ExitCode.OPERATION,
        {"error": "systemd-run: Failed: no bus"},
    )


def test_a_switch_that_goes_on_keeps_the_host(
    unit: Unit, tool: Callable[[str, str], None], staging: Path
) -> None:
    tool("systemctl", "echo active")
    (staging / "stage/switch").mkdir(parents=True)
    (staging / "stage/switch/log").write_text("[1/1] smt=off: 800 CPUs online, 240 wanted\n")

    code, answer = unit("finish", "--token=t")

    assert code == ExitCode.TIMEOUT
    assert answer == {"error": "the switch goes on: [1/1] smt=off: 800 CPUs online, 240 wanted"}
    assert (staging / "lock.json").exists()
    assert (staging / "stage/switch").exists()


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        (
            {"answer.json": json.dumps(ANSWER), "log": "[1/1] smt=off: 3.0 s\n"},
            (0, ANSWER | {"online": "0,4", "level": None}),
        ),
        (
            {"answer.json": "", "log": "hotplug-timer: error: CPU 6 is stuck; look\n"},
            (5, {"error": "CPU 6 is stuck; look"}),
        ),
        ({}, (5, {"error": "the switch left no answer"})),
    ],
)
def test_a_switch_that_is_over_gives_the_host_back(
    unit: Unit, tool: Callable[[str, str], None], staging: Path, files: dict[str, str], answer: object
) -> None:
    tool("systemctl", "echo inactive; exit 3")
    (staging / "stage/switch").mkdir(parents=True)
    for name, text in files.items():
        (staging / "stage/switch" / name).write_text(text)

    assert unit("finish", "--token=t") == answer

    assert not staging.exists()


@pytest.mark.parametrize(("online", "cpus"), [("0-7", "5"), ("0,4", "0,4")])
def test_the_switch_back_gives_interrupts_their_cpus(  # noqa: PLR0917
    unit: Unit, tool: Callable[[str, str], None], staging: Path, sysroot: Path, online: str, cpus: str
) -> None:
    tool("systemd-run", ":")
    tool("systemctl", "echo inactive; exit 3")
    present, interrupt = (
        sysroot / name for name in ("sys/devices/system/cpu/present", "proc/irq/30/smp_affinity_list")
    )
    interrupt.parent.mkdir(parents=True)
    present.write_text("0-7\n")
    (sysroot / "sys/devices/system/cpu/online").write_text("0-7\n")
    interrupt.write_text("5\n")
    begin(unit, sysroot / "program")
    interrupt.write_text("0,4\n")
    (sysroot / "sys/devices/system/cpu/online").write_text(f"{online}\n")
    (staging / "stage/switch/answer.json").write_text(json.dumps(ANSWER))

    assert unit("finish", "--token=t")[0] == 0

    assert interrupt.read_text().strip() == cpus
    assert (staging / "placement.json").exists() == (online != "0-7")


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        ({"boot_id": "this", "online": "0-7"}, True),
        ({"boot_id": "this", "online": "0,4"}, False),
        ({"boot_id": "earlier", "online": "0-7"}, False),
    ],
)
def test_the_way_back_stays_while_there_is_something_to_undo(
    unit: Unit,
    tool: Callable[[str, str], None],
    staging: Path,
    record: dict[str, str],
    kept: bool,
) -> None:
    tool("systemctl", "echo inactive; exit 3")
    (staging / "applied.json").write_text(json.dumps(record))

    unit("finish", "--token=t")

    assert [path.name for path in staging.glob("*")] == ["applied.json"] * kept
