"""Whole runs of preflight.yml, time.yml and apply-now.yml against the fake host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ansible.test_ab import OWNER, assert_back, assert_fails
from tests.fakes.fake_lpar import DEFAULT_RELEASE, FakeHost
from tests.fakes.fakehost import FakeHost as Kernel

#: A port that nobody listens on.
NOWHERE = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}


def files_of(host: FakeHost) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in host.root.rglob("*") if path.is_file()}


def recap(output: str, host: str = "fake") -> dict[str, int]:
    """What Ansible counted of a host."""
    line = next(line for line in output.splitlines() if line.startswith(host) and "changed=" in line)
    return {name: int(number) for name, _, number in (word.partition("=") for word in line.split()[2:])}


def preflight(host: FakeHost, *arguments: str, purpose: str = "ab") -> tuple[int, str, list[dict[str, Any]]]:
    result = host.play(
        "preflight.yml", *arguments, preflight_purpose=purpose, preflight_output_dir=str(host.results)
    )
    table = host.results / "preflight.json"
    rows: list[dict[str, Any]] = json.loads(table.read_text())["hosts"] if table.exists() else []
    return result.code, result.flat, rows


def test_a_fit_host_is_go_and_left_as_it_was(host: FakeHost) -> None:
    before = files_of(host)

    code, flat, rows = preflight(host)

    assert code == 0, flat
    assert [(row["host"], row["verdict"], row["reasons"]) for row in rows] == [("fake", "go", [])]
    assert rows[0]["facts"]["release"] == DEFAULT_RELEASE
    assert (
        f"| fake | go | {DEFAULT_RELEASE} | 0-15 of 0-15 | on |"
        in (host.results / "preflight.md").read_text()
    )
    assert f"| fake | go | {DEFAULT_RELEASE} |" in flat
    assert files_of(host) == before


def test_in_check_mode_the_table_is_shown_and_not_written(host: FakeHost) -> None:
    code, flat, rows = preflight(host, "--check")

    assert (code, rows) == (0, [])
    assert f"| fake | go | {DEFAULT_RELEASE} |" in flat
    assert not host.results.exists()


def test_every_host_is_in_the_table_and_one_that_is_unfit_fails_it(host: FakeHost) -> None:
    host.hosts["gone"] = NOWHERE
    host.write("sys/kernel/kexec_loaded", "1\n")
    host.write("sys/kernel/kexec_crash_loaded", "0\n")

    code, flat, rows = preflight(host)

    assert code == 2, flat
    assert {row["host"]: row["verdict"] for row in rows} == {"fake": "no-go", "gone": "unreachable"}
    assert "fake: no-go for ab" in flat
    assert "gone: unreachable for ab" in flat
    text = (host.results / "preflight.md").read_text()
    assert "| on |  |  | not loaded |" in text
    assert "- no-go: somebody has loaded a kernel for kexec already; make sure nobody needs it" in text
    assert "- go-with-warnings: kdump is not loaded, so a crash leaves no dump; start kdump.service" in text
    assert "| gone | unreachable |" in text
    assert "- no-go: gone: the state of the host cannot be read" in text


def test_warnings_are_no_failure_and_other_plans_need_less(host: FakeHost) -> None:
    host.write("sys/kernel/kexec_loaded", "1\n")
    host.write("sys/kernel/kexec_crash_loaded", "0\n")

    code, flat, rows = preflight(host, purpose="switch")

    assert code == 0, flat
    assert [row["verdict"] for row in rows] == ["go-with-warnings"]


def test_a_host_whose_python_is_no_use_is_no_go(host: FakeHost) -> None:
    (host.root / "bin/python3").write_text('#!/bin/sh\necho \'{"error": "python3 is 3.6"}\'; exit 1\n')
    (host.root / "bin/python3").chmod(0o755)

    code, flat, rows = preflight(host)

    assert code == 2, flat
    assert rows[0]["verdict"] == "no-go"
    assert "python3 is 3.6" in rows[0]["reasons"][0]["text"]
    assert "check that the host is up" in rows[0]["reasons"][0]["step"]


def time(host: FakeHost, *arguments: str, **variables: Any) -> Any:
    del host.variables["ab_variants"]
    try:
        return host.play("time.yml", *arguments, **variables)
    finally:
        host.variables["ab_variants"] = []


def test_the_running_kernel_is_timed_compared_and_reported(host: FakeHost) -> None:
    host.write("sys/devices/system/cpu/smt/control", "off\n")
    host.write("sys/devices/system/cpu/online", "0,8\n")

    result = time(host, ab_label="before")

    assert result.code == 0, result.output
    assert not [command for command in host.commands() if command[0] == "kexec"]
    raw = host.results / "raw/fake"
    assert [path.name for path in raw.iterdir()] == ["01-before.jsonl"]
    run = json.loads((raw / "01-before.jsonl").read_text().splitlines()[0])
    assert run["host"]["kernel_release"] == DEFAULT_RELEASE
    assert run["host"]["boot_method"] == "unknown"
    assert "smt=off before" in result.flat
    assert (host.results / "report/fake/report.html").exists()
    assert host.read("sys/devices/system/cpu/smt/control") == "off"
    assert_back(host)

    # After a change of the kernel, into the same folder, with the files of a run between moved away.
    (raw / "01-before.jsonl").rename(raw / "02-before.jsonl")
    host.write("proc/sys/kernel/osrelease", "6.12-new\n")
    result = time(host, ab_label="after")

    assert result.code == 0, result.output
    assert sorted(path.name for path in raw.iterdir()) == ["02-before.jsonl", "03-after.jsonl"]
    assert "smt=off before" in result.flat
    assert "smt=off after" in result.flat
    summary = json.loads((host.results / "report/fake/summary.json").read_text())
    assert set(summary["variants"]) == {"before", "after"}


def test_check_mode_times_nothing_and_says_what_it_would(host: FakeHost) -> None:
    before = files_of(host)

    result = time(host, "--check")

    assert result.code == 0, result.output
    assert f"would time 2 iterations of smt=off smt=on on {DEFAULT_RELEASE}, labelled running" in result.flat
    assert files_of(host) == before
    assert not host.results.exists()


def test_a_failed_timing_is_fetched_and_the_host_restored(host: FakeHost) -> None:
    host.write("timer-fault", "fails")

    assert_fails(time(host), "did not complete", "smt=off left CPUs 3,5 online", "The host is back on")
    assert (host.results / "raw/fake/01-running.jsonl").exists()
    assert not (host.results / "report").exists()
    assert_back(host)


def test_what_a_timing_refuses(host: FakeHost) -> None:
    assert_fails(
        time(host, ab_label="a/b", ab_iterations=0),
        "ab_label is 'a/b'",
        "ab_iterations is 0; ask for at least 1",
    )
    host.write("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    assert_fails(time(host), "root@desk has been using this host since")
    assert not host.commands()


def test_a_switch_is_done_once(host: FakeHost, switching: Kernel) -> None:
    result = host.play("apply-now.yml", smt_switch_level="off", smt_switch_tune_fqs=True)

    assert result.code == 0, result.output
    assert switching.online == {0, 4}
    assert "fake: smt=off: 2 of 8 CPUs online after" in result.flat
    assert ", expedited" in result.flat
    assert switching.get("sys/kernel/rcu_expedited") == "0"
    assert not host.staging.exists()
    switches = switching.get("ppc64_cpu.log").splitlines()

    result = host.play("apply-now.yml", smt_switch_level="off")

    assert result.code == 0, result.output
    assert "fake: smt=off: 2 of 8 CPUs online as it is" in result.flat
    assert switching.get("ppc64_cpu.log").splitlines() == switches


def test_a_switch_in_check_mode_is_a_dry_run(host: FakeHost, switching: Kernel) -> None:
    before = files_of(host)

    result = host.play("apply-now.yml", "--check", smt_switch_level="2")

    assert result.code == 0, result.output
    assert "would switch to smt=2 with ppc64_cpu: online are CPUs 0-7, afterwards 0-1,4-5" in result.flat
    assert recap(result.output)["changed"] == 1
    assert files_of(host) == before

    result = host.play("apply-now.yml", "--check", smt_switch_level="on")

    assert result.code == 0, result.output
    assert recap(result.output)["changed"] == 0


def test_a_switch_that_fails_names_the_cpu_and_gives_the_host_back(host: FakeHost, switching: Kernel) -> None:
    switching.stick(6)
    host.hosts["other"] = {"ansible_connection": "local"}

    result = host.play("apply-now.yml", smt_switch_level="off")

    assert_fails(result, "fake: SMT could not be switched to off")
    assert "CPUs 6-7 online but should be offline" in result.flat
    assert "other" not in result.output, "the next host is not touched"
    assert switching.get("sys/kernel/rcu_expedited") == "0"
    assert not host.staging.exists()


@pytest.mark.parametrize("level", ["half", "0", True])
def test_what_is_no_level_is_refused(host: FakeHost, switching: Kernel, level: object) -> None:
    assert_fails(
        host.play("apply-now.yml", smt_switch_level=level), "use on, off (quoted in YAML) or a number"
    )
    assert len(switching.online) == 8


def test_a_switch_respects_who_holds_the_host(host: FakeHost, switching: Kernel) -> None:
    host.write("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))

    assert_fails(
        host.play("apply-now.yml", smt_switch_level="off"), "root@desk has been using this host since"
    )
    assert len(switching.online) == 8
    assert host.staging.exists()
