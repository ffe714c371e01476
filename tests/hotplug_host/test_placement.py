"""Where interrupts, queues and tasks may run, over a switch and its way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotplug_host.cpulist import parse_cpulist
from hotplug_host.placement import keep, put_back
from tests.fakes.fakehost import FakeHost, FakeSysfs
from tests.hotplug_host.preflight.test_preflight import task

QUEUE = "sys/class/net/eth0/queues/rx-0/rps_cpus"
#: Where the kernel moves an interrupt of CPU 5, as CPUs 6 and 7 go after it.
MOVED = "0,4,6-7"
BOOT_ID = "proc/sys/kernel/random/boot_id"


@pytest.fixture
def host(host: FakeHost) -> FakeHost:
    host.put(BOOT_ID, "this")
    host.put("proc/irq/30/smp_affinity_list", "5")
    host.put("proc/irq/31/smp_affinity_list", "0-7")
    host.put(QUEUE, "f0")
    host.put("sys/class/net/eth0/queues/tx-0/xps_cpus", "0f")
    task(host, 10, "dpdk", "5-7")
    task(host, 11, "everywhere", "0-7")
    return host


@pytest.fixture
def staging(host: FakeHost) -> Path:
    """What is kept of the host, at smt=on; then it was switched off."""
    folder = host.root / "staging"
    keep(FakeSysfs(host), folder)
    host.write_control("off")
    assert host.get("proc/irq/30/smp_affinity_list") == MOVED
    return folder


def kept(staging: Path) -> list[str]:
    return [path.name for path in staging.iterdir()]


def test_interrupts_have_their_cpus_again_once_the_host_is_as_it_was(host: FakeHost, staging: Path) -> None:
    assert put_back(FakeSysfs(host), staging) == []
    assert host.get("proc/irq/30/smp_affinity_list") == MOVED, "their CPUs are not there yet"
    assert kept(staging) == ["placement.json"]

    host.write_control("on")
    assert put_back(FakeSysfs(host), staging) == []

    assert host.get("proc/irq/30/smp_affinity_list") == "5"
    assert host.get("proc/irq/31/smp_affinity_list") == "0-7"
    assert kept(staging) == []
    assert put_back(FakeSysfs(host), staging) == [], "of a host without a switch there is nothing"


def test_what_the_kernel_keeps_is_named(host: FakeHost, staging: Path) -> None:
    host.write_control("on")
    host.put(QUEUE, "ff")
    task(host, 10, "dpdk", "0-7")
    task(host, 11, "everywhere", "0-3")
    assert put_back(FakeSysfs(host), staging) == [
        f"/{QUEUE} says ff and said f0 before the switch",
        "task 10 (dpdk) may run on CPUs 0-7, and before the switch on 5-7",
    ]


def test_many_are_counted(host: FakeHost) -> None:
    for number in range(20, 28):
        task(host, number, "dpdk", "5-7")
    staging = host.root / "staging"
    keep(FakeSysfs(host), staging)
    for number in range(20, 28):
        task(host, number, "dpdk", "0-7")
    lines = put_back(FakeSysfs(host), staging)
    assert len(lines) == 6
    assert lines[-1] == "3 more tasks have other CPUs than before"


def test_a_task_that_came_since_is_another(host: FakeHost, staging: Path) -> None:
    host.write_control("on")
    record = json.loads((staging / "placement.json").read_text())
    record["tasks"]["10"][0] = "an earlier start"
    (staging / "placement.json").write_text(json.dumps(record))
    task(host, 10, "another", "0-7")
    assert put_back(FakeSysfs(host), staging) == []


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"boot_id": "earlier", "online": "0-7"})])
def test_what_is_of_another_boot_is_void(host: FakeHost, staging: Path, text: str) -> None:
    (staging / "placement.json").write_text(text)
    assert put_back(FakeSysfs(host), staging) == []
    assert kept(staging) == []
    assert host.get("proc/irq/30/smp_affinity_list") == MOVED


def test_cores_that_came_or_went_keep_nothing_from_it(host: FakeHost, staging: Path) -> None:
    host.write_control("on")
    host.add_core(online=True)
    assert put_back(FakeSysfs(host), staging) == []
    assert parse_cpulist(host.get("proc/irq/30/smp_affinity_list")) == {5}
