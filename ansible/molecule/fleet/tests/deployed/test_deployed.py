"""A guest on the kernel that was deployed to it, and timed."""

from __future__ import annotations

import json
from typing import Any

from conftest import State
from testinfra.host import Host

STAGING = "/var/lib/hotplug-acceleration"


def test_it_runs_the_kernel_for_its_machine_with_the_same_cpus(
    now: State, before: State, kernel: dict[str, Any]
) -> None:
    assert now.release == kernel["release"] != before.release
    assert (now.online, now.smt) == (before.online, before.smt)


def test_its_kernel_is_tagged(host: Host) -> None:
    assert "hotplug_acceleration.variant=patched" in host.file("/proc/cmdline").content_string.split()


def test_it_says_what_is_deployed_and_where_the_way_back_leads(
    host: Host, before: State, kernel: dict[str, Any]
) -> None:
    record = json.loads(host.file(f"{STAGING}/deployed.json").content_string)
    assert (record["release"], record["variant"], record["boot"]) == (kernel["release"], "patched", "kexec")
    assert record["sha256"] == kernel["sha256"]
    assert record["default"]["release"] == before.release
    assert record["default"]["online"] == before.online


def test_no_run_holds_it_and_nothing_else_is_left(host: Host) -> None:
    assert not host.file(f"{STAGING}/lock.json").exists
    assert host.file(STAGING).listdir() == ["deployed.json"]
    assert host.file("/sys/kernel/rcu_expedited").content_string.strip() == "0"


def test_it_was_timed_on_that_kernel(timed: list[dict[str, Any]], kernel: dict[str, Any]) -> None:
    (run, *records, end) = timed
    assert (run["variant"], run["host"]["kernel_release"]) == ("deployed", kernel["release"])
    assert run["host"]["machine"] == kernel["arch"]
    switches = [(record["operation"], record["status"]) for record in records if record["phase"] == "timed"]
    assert switches == [("smt=off", "ok"), ("smt=on", "ok")]
    assert (end["outcome"], end["restored"]) == ("complete", True)
