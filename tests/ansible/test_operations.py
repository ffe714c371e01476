"""Whole runs of preflight.yml, time.yml and apply.yml against the fake host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from time import sleep
from typing import Any

import pytest

from tests.ansible.refusals import Case, Refusals, refuse
from tests.ansible.test_ab import OWNER, assert_back, assert_fails
from tests.fakes.fake_lpar import ANSIBLE, BIN, DEFAULT_RELEASE, NOWHERE, ROOT_HERE, FakeLpar, files_below

# Modules are started, each in a Python of its own.
pytestmark = pytest.mark.timeout(600)


def left(host: FakeLpar) -> list[str]:
    """What there is in the staging directory."""
    return sorted(path.name for path in host.staging.glob("*"))


def preflight(host: FakeLpar, *arguments: str, purpose: str = "ab") -> tuple[int, str, list[dict[str, Any]]]:
    result = host.play(
        "preflight.yml", *arguments, preflight_purpose=purpose, preflight_output_dir=str(host.results)
    )
    table = host.results / "preflight.json"
    rows: list[dict[str, Any]] = json.loads(table.read_text())["hosts"] if table.exists() else []
    return result.code, result.flat, rows


@pytest.mark.slow
def test_a_fit_host_is_go_and_left_as_it_was(host: FakeLpar) -> None:
    before = files_below(host.root)

    code, flat, rows = preflight(host)

    assert code == 0, flat
    assert [(row["host"], row["verdict"], row["reasons"]) for row in rows] == [("fake", "go", [])]
    assert rows[0]["facts"]["release"] == DEFAULT_RELEASE
    assert (
        f"| fake | go | {DEFAULT_RELEASE} | 0-15 of 0-15 | on |"
        in (host.results / "preflight.md").read_text()
    )
    assert f"| fake | go | {DEFAULT_RELEASE} |" in flat
    assert files_below(host.root) == before


@pytest.mark.slow
def test_in_check_mode_the_table_is_shown_and_not_written(host: FakeLpar) -> None:
    code, flat, rows = preflight(host, "--check")

    assert (code, rows) == (0, [])
    assert f"| fake | go | {DEFAULT_RELEASE} |" in flat
    assert not host.results.exists()


@pytest.mark.slow
def test_every_host_is_in_the_table_and_one_that_is_unfit_fails_it(host: FakeLpar) -> None:
    host.hosts["gone"] = NOWHERE
    old = host.beside("old")
    python = old.root / "bin/python3"
    python.write_text('#!/bin/sh\necho \'{"error": "python3 is 3.6"}\'; exit 1\n')
    host.hosts["old"]["ansible_python_interpreter"] = str(python)
    host.put("sys/kernel/kexec_loaded", "1")
    host.put("sys/kernel/kexec_crash_loaded", "0")
    # Else those of all hosts, which win over a host's own.
    own = {name: host.variables.pop(name) for name in ("hotplug_sysroot", "ab_staging_dir")}
    host.hosts["fake"] |= own

    code, flat, rows = preflight(host)

    assert code == 2, flat
    assert {row["host"]: row["verdict"] for row in rows} == {
        "fake": "no-go",
        "gone": "unreachable",
        "old": "no-go",
    }
    assert "fake: no-go for ab" in flat
    assert "gone: unreachable for ab" in flat
    text = (host.results / "preflight.md").read_text()
    assert "| on |  |  | not loaded |" in text
    assert "- no-go: somebody has loaded a kernel for kexec already; make sure that it is not needed" in text
    assert (
        "- go-with-warnings: neither kdump nor fadump is ready, so a crash leaves no dump; start kdump"
        in text
    )
    assert "| gone | unreachable |" in text
    assert "- no-go: gone: the state of the host cannot be read" in text
    # Whose Python is no use.
    (reason,) = (row["reasons"][0] for row in rows if row["host"] == "old")
    assert "python3 is 3.6" in reason["text"]
    assert "check that the host is up" in reason["step"]


@pytest.mark.slow
def test_warnings_are_no_failure_and_other_plans_need_less(host: FakeLpar) -> None:
    host.put("sys/kernel/kexec_loaded", "1")
    host.put("sys/kernel/kexec_crash_loaded", "0")

    code, flat, rows = preflight(host, purpose="switch")

    assert code == 0, flat
    assert [row["verdict"] for row in rows] == ["go-with-warnings"]


def time(host: FakeLpar, *arguments: str, **variables: Any) -> Any:
    del host.variables["ab_variants"]
    try:
        return host.play("time.yml", *arguments, **variables)
    finally:
        host.variables["ab_variants"] = []


@pytest.mark.slow
def test_the_running_kernel_is_timed_compared_and_reported(host: FakeLpar) -> None:
    host.put("sys/devices/system/cpu/smt/control", "off")
    host.put("sys/devices/system/cpu/online", "0,8")

    result = time(host, ab_variant_name="before", ab_repeat=2)

    assert result.code == 0, result.output
    assert not [command for command in host.commands() if command[0] == "kexec"]
    raw = host.results / "raw/fake"
    assert [path.name for path in raw.iterdir()] == ["01-before.jsonl"]
    run = json.loads((raw / "01-before.jsonl").read_text().splitlines()[0])
    assert run["host"]["kernel_release"] == DEFAULT_RELEASE
    assert run["host"]["boot_method"] == "unknown"
    assert "smt=off before" in result.flat
    assert (host.results / "report/fake/report.html").exists()
    assert host.get("sys/devices/system/cpu/smt/control") == "off"
    assert_back(host)

    # After a change of the kernel, into the same folder, with the files of a run between moved away.
    (raw / "01-before.jsonl").rename(raw / "02-before.jsonl")
    host.put("proc/sys/kernel/osrelease", "6.12-new")
    result = time(host, ab_variant_name="after")

    assert result.code == 0, result.output
    assert sorted(path.name for path in raw.iterdir()) == ["02-before.jsonl", "03-after.jsonl"]
    assert "smt=off before" in result.flat
    assert "smt=off after" in result.flat
    summary = json.loads((host.results / "report/fake/summary.json").read_text())
    assert set(summary["variants"]) == {"before", "after"}


@pytest.mark.slow
def test_check_mode_times_nothing_and_says_what_it_would(host: FakeLpar) -> None:
    before = files_below(host.root)

    result = time(host, "--check")

    assert result.code == 0, result.output
    would = f"would time 2 iterations of smt=off smt=on on {DEFAULT_RELEASE}, as variant running"
    assert would in result.flat
    assert files_below(host.root) == before
    assert not host.results.exists()


@pytest.mark.slow
def test_a_failed_timing_is_fetched_and_the_host_restored(host: FakeLpar) -> None:
    host.put("timer-fault", "fails")

    assert_fails(time(host), "did not complete", "smt=off left CPUs 3,5 online", "The host is back on")
    assert (host.results / "raw/fake/01-running.jsonl").exists()
    assert not (host.results / "report").exists()
    assert_back(host)


@pytest.mark.slow
def test_a_switch_is_done_once(switching: FakeLpar) -> None:
    result = switching.play("apply.yml", smt_switch_level="off", smt_switch_tune_fqs=True)

    assert result.code == 0, result.output
    assert switching.online == {0, 4}
    assert "fake: smt=off: 2 of 8 CPUs online after" in result.flat
    assert ", expedited" in result.flat
    assert switching.get("sys/kernel/rcu_expedited") == "0"
    assert left(switching) == ["applied.json", "placement.json"]
    switches = switching.get("ppc64_cpu.log").splitlines()

    result = switching.play("apply.yml", smt_switch_level="off")

    assert result.code == 0, result.output
    assert "fake: smt=off: 2 of 8 CPUs online as it is" in result.flat
    assert switching.get("ppc64_cpu.log").splitlines() == switches


@pytest.mark.slow
@pytest.mark.parametrize("back", ["rollback", "apply"])
def test_interrupts_have_their_cpus_again_once_a_switch_is_undone(switching: FakeLpar, back: str) -> None:
    queue = "sys/class/net/eth0/queues/rx-0/rps_cpus"
    switching.put("proc/irq/30/smp_affinity_list", "5")
    switching.put(queue, "f0")
    result = switching.play("apply.yml", smt_switch_level="off")
    assert result.code == 0, result.output
    assert switching.get("proc/irq/30/smp_affinity_list") != "5"
    switching.put(queue, "11")
    if back == "rollback":
        # The files of a fake host do nothing when a step writes to them.
        switching.write_control("on")

    result = switching.play(f"{back}.yml", **({"smt_switch_level": "on"} if back == "apply" else {}))

    assert result.code == 0, result.output
    assert switching.get("proc/irq/30/smp_affinity_list") == "5"
    assert f"fake: /{queue} says 11 and said f0 before the switch" in result.flat
    assert not switching.staging.exists()


@pytest.mark.slow
@pytest.mark.parametrize("boot", ["this", "earlier"])
def test_a_rollback_undoes_a_switch_of_this_boot(host: FakeLpar, boot: str) -> None:
    boot_id = host.get("proc/sys/kernel/random/boot_id") if boot == "this" else boot
    record = {"boot_id": boot_id, "release": DEFAULT_RELEASE, "smt_level": "4", "online": "0-15"}
    host.put("var/lib/hotplug-acceleration/applied.json", json.dumps(record))

    result = host.play("rollback.yml", "--check")

    assert result.code == 0, result.output
    assert ("to CPUs 0-15" in result.flat) == (boot == "this")

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert host.get("sys/devices/system/cpu/smt/control") == ("4" if boot == "this" else "on")
    assert not host.staging.exists()


UNIT = "etc/systemd/system/hotplug-acceleration-smt.service"


@pytest.mark.slow
def test_a_switch_holds_after_a_reboot_if_asked_to(switching: FakeLpar) -> None:
    result = switching.play("apply.yml", smt_switch_level="off", smt_switch_persist="unit")

    assert result.code == 0, result.output
    assert "--smt=off" in switching.get(UNIT) or "echo off" in switching.get(UNIT)
    record = json.loads(switching.get("var/lib/hotplug-acceleration/applied.json"))
    assert (record["online"], record["persists"]) == ("0-7", {"kind": "unit"})


@pytest.mark.slow
def test_a_rollback_undoes_a_switch_that_holds_after_a_reboot(host: FakeLpar) -> None:
    record = {
        "boot_id": "earlier",
        "release": DEFAULT_RELEASE,
        "smt_level": "4",
        "online": "0-15",
        "persists": {"kind": "unit"},
    }
    host.put("var/lib/hotplug-acceleration/applied.json", json.dumps(record))
    host.put(UNIT, "[Unit]")

    result = host.play("rollback.yml")

    assert result.code == 0, result.output
    assert host.get("sys/devices/system/cpu/smt/control") == "4"
    assert not (host.root / UNIT).exists()
    assert not host.staging.exists()


@pytest.mark.slow
def test_a_switch_goes_on_without_its_controller(switching: FakeLpar, request: pytest.FixtureRequest) -> None:
    """And another one goes on with it; the host switches once."""
    request.addfinalizer(switching.end_workers)
    switching.install_ppc64_cpu(path="control", pause=20)
    switching.put("slow-timing", "")
    words = [*switching.options(smt_switch_level="off"), str(ANSIBLE / "playbooks/apply.yml")]
    controller = subprocess.Popen(
        [*ROOT_HERE, str(BIN / "ansible-playbook"), *words],
        env=switching.environment(),
        cwd=switching.work,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not (switching.root / "ppc64_cpu.log").exists():
            assert controller.poll() is None
            sleep(0.1)
    finally:
        os.killpg(controller.pid, signal.SIGKILL)
        controller.wait()

    refused = switching.play("apply.yml", smt_switch_level="off")
    other = switching.play("apply.yml", smt_switch_level="2", smt_switch_resume=True)
    assert len(switching.online) > 2, "it goes on"
    result = switching.play("apply.yml", smt_switch_level="off", smt_switch_resume=True)

    assert_fails(refused, "if it is gone, go on with it by -e smt_switch_resume=true, or ansible-playbook -i")
    assert_fails(other, "has begun to switch this host to smt=off, not 2")
    assert result.code == 0, result.output
    assert "fake: smt=off: 2 of 8 CPUs online after" in result.flat
    assert switching.get("ppc64_cpu.log").splitlines() == ["--smt=off"]
    assert left(switching) == ["applied.json", "placement.json"]


@pytest.mark.slow
def test_the_first_command_of_an_operator_needs_no_settings(host: FakeLpar) -> None:
    """From the checkout's top, without a configuration and a directory for the table."""
    environment = host.environment() | {"PWD": str(host.work)}
    del environment["ANSIBLE_CONFIG"]
    words = [*host.options(), "ansible/playbooks/preflight.yml"]
    done = subprocess.run(
        [*ROOT_HERE, str(BIN / "ansible-playbook"), *words],
        env=environment,
        cwd=ANSIBLE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (host.work / "preflight/preflight.md").exists()


@pytest.mark.slow
def test_a_switch_in_check_mode_is_a_dry_run(switching: FakeLpar) -> None:
    before = files_below(switching.root)

    result = switching.play("apply.yml", "--check", smt_switch_level="2")

    assert result.code == 0, result.output
    assert "would switch to smt=2 with ppc64_cpu: online are CPUs 0-7, afterwards 0-1,4-5" in result.flat
    assert result.changed() == 1
    assert files_below(switching.root) == before

    result = switching.play("apply.yml", "--check", smt_switch_level="on")

    assert result.code == 0, result.output
    assert result.changed() == 0


@pytest.mark.slow
def test_a_switch_that_fails_names_the_cpu_and_gives_the_host_back(switching: FakeLpar) -> None:
    switching.stick(6)
    switching.hosts["other"] = {"ansible_connection": "local"}

    result = switching.play("apply.yml", smt_switch_level="off")

    assert_fails(result, "fake: SMT could not be switched to off")
    assert "CPUs 6-7 online but should be offline" in result.flat
    assert "[other]" not in result.output.partition("PLAY [Switch SMT")[2], "the next host is not touched"
    assert switching.get("sys/kernel/rcu_expedited") == "0"
    assert left(switching) == ["applied.json", "placement.json"]


def held(host: FakeLpar) -> None:
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))


NOT_TIMED = [
    Case(
        "variables",
        ["ab_variant_name is 'a/b'", "ab_iterations is 0; ask for at least 1"],
        {"ab_variant_name": "a/b", "ab_iterations": 0},
    ),
    Case("held", ["root@desk has been using this host since"], prepare=held),
]
NO_LEVEL = ["use on, off (quoted in YAML) or a number"]
NOT_SWITCHED = [
    Case("half", NO_LEVEL, {"smt_switch_level": "half"}),
    Case("none", NO_LEVEL, {"smt_switch_level": "0"}),
    Case("true", NO_LEVEL, {"smt_switch_level": True}),
    Case("held", ["root@desk has been using this host since"], {"smt_switch_level": "off"}, prepare=held),
]


def no_variants(host: FakeLpar) -> None:
    del host.variables["ab_variants"]


def act(host: FakeLpar) -> None:
    host.act()


@pytest.fixture(scope="module")
def not_timed(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    work = tmp_path_factory.mktemp("time")
    return refuse(work, "time.yml", NOT_TIMED, no_variants, ab_serial=2, ab_max_fail_percentage=100)


@pytest.mark.parametrize("case", NOT_TIMED, ids=str)
def test_what_a_timing_refuses(not_timed: Refusals, case: Case) -> None:
    not_timed.check(case)


@pytest.fixture(scope="module")
def not_switched(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    work = tmp_path_factory.mktemp("switch")
    all_at_once = {"smt_switch_serial": "100%", "smt_switch_max_fail_percentage": 100}
    return refuse(work, "apply.yml", NOT_SWITCHED, act, **all_at_once)


@pytest.mark.parametrize("case", NOT_SWITCHED, ids=str)
def test_what_a_switch_refuses(not_switched: Refusals, case: Case) -> None:
    assert len(not_switched.check(case).online) == 8
