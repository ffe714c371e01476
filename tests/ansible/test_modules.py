"""The collection's modules, in a play of somebody else's: answers, faults, check mode, differences."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.fake_lpar import BIN, COLLECTIONS, NOWHERE, ROOT_HERE, FakeLpar, PlayResult, files_below


@pytest.fixture
def run(switching: FakeLpar, tmp_path: Path) -> Any:
    """Run tasks on the host."""

    def call(*tasks: dict[str, Any], arguments: tuple[str, ...] = ()) -> PlayResult:
        playbook = tmp_path / "modules.yml"
        playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": list(tasks)}]))
        return switching.play(str(playbook), *arguments)

    return call


def told(value: str) -> dict[str, Any]:
    return {"ansible.builtin.debug": {"msg": f"told {value}"}}


def test_a_host_is_read_and_changed_once(run: Any, switching: FakeLpar) -> None:
    switching.put("sys/kernel/rcu_expedited", "1")
    result = run(
        {"smt.hotplug.host_state": {"for": "switch"}},
        told("{{ ansible_facts.host_state.cpus.online }} {{ ansible_facts.host_judgement.verdict }}"),
        {"smt.hotplug.rcu_expedited": {"value": "0"}, "register": "first"},
        told("{{ first.before }} {{ first.changed }}"),
        {"smt.hotplug.rcu_expedited": {"value": "0"}, "register": "again"},
        told("{{ again.before }} {{ again.changed }}"),
    )
    assert result.code == 0, result.output
    assert "told 0-7 no-go" in result.flat
    assert "told 1 True" in result.flat
    assert "told 0 False" in result.flat
    assert result.changed() == 1


def test_a_lock_is_taken_by_one_run_and_names_it(run: Any, switching: FakeLpar) -> None:
    lock = {"staging": str(switching.staging)}
    given = {"lease": 600, "next_step": "break it by -e ab_break_lock=TOKEN"}
    result = run(
        {
            "smt.hotplug.run_lock": {"action": "acquire", "record": {"switch": "off"}, **lock, **given},
            "register": "lock",
        },
        {
            "smt.hotplug.run_lock": {"action": "acquire", **lock, **given},
            "register": "other",
            "ignore_errors": True,
        },
        told("{{ other.msg | replace(lock.token, 'ITS-TOKEN') }}"),
        {"smt.hotplug.run_lock": {"action": "release", "token": "{{ lock.token }}", **lock}},
    )
    assert result.code == 0, result.output
    assert "fake: the lock is not acquired: root@" in result.flat
    assert "s ago, its lease runs out in " in result.flat
    assert "; break it by -e ab_break_lock=ITS-TOKEN" in result.flat
    assert not switching.staging.exists()


def test_each_module_is_a_sign_of_life_while_the_run_has_the_host(run: Any, switching: FakeLpar) -> None:
    lock, sign = {"staging": str(switching.staging)}, switching.staging / "lease.json"
    module = {"smt.hotplug.rcu_expedited": {"value": "0"}}
    result = run(
        {"smt.hotplug.run_lock": {"action": "acquire", **lock}, "register": "lock"},
        {"ansible.builtin.raw": f"rm {sign}"},
        module,
        {"ansible.builtin.raw": f"cat {sign}"},
        {"smt.hotplug.run_lock": {"action": "release", "token": "{{ lock.token }}", **lock}},
        module,
    )
    assert result.code == 0, result.output
    assert not switching.staging.exists(), "afterwards a module is no sign of a run"


def test_check_mode_changes_nothing_and_reads_all_the_same(run: Any, switching: FakeLpar) -> None:
    before = files_below(switching.root)
    result = run(
        {"smt.hotplug.host_state": {}},
        {"smt.hotplug.smt_state": {"level": "2"}},
        {"smt.hotplug.run_lock": {"action": "acquire", "staging": str(switching.staging)}},
        {"smt.hotplug.smt_switch": {"action": "start", "level": "2"}, "register": "would"},
        told("{{ would.said | join }}"),
        arguments=("--check",),
    )
    assert result.code == 0, result.output
    assert "would switch to smt=2" in result.flat
    assert files_below(switching.root) == before


@pytest.mark.slow
def test_check_mode_foretells_what_changes(run: Any, switching: FakeLpar) -> None:
    """Each module in check mode, in earnest, and in check mode again."""
    switching.put("sys/kernel/rcu_expedited", "1")
    record = {"online": "0-7", "smt_level": "on"}
    where = {"staging": str(switching.staging)}
    modules: list[dict[str, Any]] = [
        {"smt.hotplug.rcu_expedited": {"value": "0"}},
        {"smt.hotplug.smt_state": {"level": "2"}},
        {"smt.hotplug.smt_persist": {"kind": "unit", "level": "2", "record": record, **where}},
        {"smt.hotplug.boot_fallback": {"action": "arm", "release": "6.12", "seconds": 600}},
        {"smt.hotplug.run_lock": {"action": "acquire", "record": record, **where}},
    ]
    tasks = [
        {**module, "check_mode": check, "register": f"of_{number}_{turn}"}
        for number, module in enumerate(modules)
        for turn, check in enumerate([True, False])
    ]
    again = [{**module, "check_mode": True} for module in modules[:-1]]
    tasks += [{**module, "register": f"of_{number}_2"} for number, module in enumerate(again)]
    told_of = [f"of_{number}_{turn}.changed" for turn in range(3) for number in range(len(again))]
    told_of += ["of_4_0.held", "of_4_1.held"]
    lock = {"action": "release", "token": "{{ of_4_1.token }}", **where}

    result = run(
        *tasks,
        told(" ".join(f"{{{{ {name} | int }}}}" for name in told_of)),
        {"smt.hotplug.run_lock": {"action": "acquire", **where}, "check_mode": True, "ignore_errors": True},
        {"smt.hotplug.run_lock": lock, "check_mode": True},
        {"smt.hotplug.run_lock": lock},
    )

    assert result.code == 0, result.output
    assert "told 1 1 1 1 1 1 1 1 0 0 0 0 0 1" in result.flat
    assert "the lock is not acquired: root@" in result.flat


def test_a_host_that_does_not_answer_reaches_the_rescue(run: Any, switching: FakeLpar) -> None:
    switching.hosts = {"lost": NOWHERE}
    result = run(
        {
            "block": [{"smt.hotplug.host_state": {}, "register": "state"}],
            "rescue": [told("{{ state.reached }} {{ state.rc }} {{ state.msg }}")],
        }
    )
    assert result.code == 0, result.output
    assert "told False -1 lost: the state of the host cannot be read: " in result.flat
    assert result.flat.count("; check that the host is up") >= 1


def test_a_host_that_hangs_is_given_up(run: Any, switching: FakeLpar) -> None:
    python = switching.root / "bin/python3"
    python.unlink(missing_ok=True)
    python.write_text("#!/bin/sh\nexec sleep 30\n")
    python.chmod(0o755)
    result = run({"smt.hotplug.host_state": {"answer_timeout": 1}})
    assert result.code == 2
    assert "the state of the host cannot be read: no answer within 1 s" in result.failures["fake"]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"smt.hotplug.smt_state": {}}, "missing required arguments: level"),
        ({"smt.hotplug.rcu_expedited": {"value": "2"}}, "value of value must be one of: 0, 1, got: 2"),
        ({"smt.hotplug.host_state": {"purpose": "ab"}}, "purpose. Supported parameters include"),
        (
            {
                "smt.hotplug.kexec_image": {
                    "image": "/nowhere",
                    "sha256": "0",
                    "what": "it is not ours",
                    "next_step": "call",
                }
            },
            "fake: it is not ours: /nowhere cannot be read: No such file or directory; call",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Any, task: dict[str, Any], words: str) -> None:
    result = run(task)
    assert result.code == 2
    assert words in result.failures["fake"]


def test_differences_are_shown(run: Any, switching: FakeLpar) -> None:
    switching.put("sys/kernel/rcu_expedited", "0")
    result = run({"smt.hotplug.rcu_expedited": {"value": "1"}}, arguments=("--diff",))
    assert result.code == 0, result.output
    assert "-0" in result.output and "+1" in result.output
    assert json.loads(switching.get("sys/kernel/rcu_expedited")) == 1


def test_a_host_that_is_asked_after_others_has_the_time_for_it(run: Any, switching: FakeLpar) -> None:
    for name in ("second", "third"):
        switching.beside(name)
    arm = {"smt.hotplug.boot_fallback": {"action": "arm", "release": "r", "seconds": 600}}
    result = run(arm, arguments=("--forks", "2"))
    assert result.code == 0, result.output
    assert "OnBootSec=1200" in switching.get("etc/systemd/system/hotplug-acceleration-fallback.timer")


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_boot_is_looked_for_as_long_as_its_run_lives(host: FakeLpar, tmp_path: Path, end: int) -> None:
    """A look would keep the kernel that it finds, though the run that would give the host back is gone."""
    boot_id = host.root / "proc/sys/kernel/random/boot_id"
    old = boot_id.read_text()
    boot_id.unlink()
    os.mkfifo(boot_id)
    times = {"timeout": 60, "down_timeout": 60}
    task = {"smt.hotplug.boot_proof": {"old_boot_id": old.strip(), **times}}
    playbook = tmp_path / "look.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    command = [*ROOT_HERE, str(BIN / "ansible-playbook"), *host.options(), str(playbook)]
    environment = host.environment() | COLLECTIONS
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as play:
        assert looked_at(boot_id, old, 60)
        play.send_signal(end)

    assert not looked_at(boot_id, old, 5), "the pause between two looks is over"


def test_a_look_for_a_boot_opens_a_connection_of_its_own_and_gives_it_up_soon(
    host: FakeLpar, tmp_path: Path
) -> None:
    ssh = Path(host.remote()["ansible_ssh_executable"])
    words = tmp_path / "words"
    ssh.write_text(ssh.read_text().replace("#!/bin/sh", f'#!/bin/sh\necho "$@" >> {words}', 1))
    host.hosts = {"lpar1": {"ansible_ssh_executable": str(ssh), "hotplug_sysroot": str(host.root)}}
    task = {"smt.hotplug.boot_proof": {"old_boot_id": "another", "timeout": 60, "down_timeout": 60}}
    playbook = tmp_path / "look.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    command = [*ROOT_HERE, str(BIN / "ansible-playbook"), *host.options(), str(playbook)]
    environment = host.environment() | COLLECTIONS
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
    (look,) = words.read_text().splitlines()
    assert "ConnectTimeout=2 " in look
    assert look.index("ControlPath=none") < look.index("ControlMaster=auto")


def looked_at(fifo: Path, answer: str, seconds: float) -> bool:
    """Answer the next one who opens a file within so many seconds, if any does, until it has closed it."""
    end = time.monotonic() + seconds
    answered = False
    while time.monotonic() < end:
        try:
            file = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            if answered:
                return True
            time.sleep(0.05)
            continue
        with os.fdopen(file, "w") as opened:
            opened.write("" if answered else answer)
        answered = True
    return answered
