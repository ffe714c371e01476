from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import control_label, describe_difference, read_topology
from tests.fakes.fakehost import FakeHost, FakeSysfs


def test_power_places_offline_cpus_by_the_device_tree(host: FakeHost) -> None:
    host.write_control("off")
    topology = read_topology(FakeSysfs(host))
    assert topology.cores == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert topology.threads_per_core == 4
    assert topology.online == {0, 4}
    assert not topology.unplaced


def test_x86_reads_siblings_and_says_which_cpus_hide_their_core(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, cores=4, threads=2, machine="x86_64")
    assert read_topology(FakeSysfs(host)).cores == ((0, 4), (1, 5), (2, 6), (3, 7))
    host.set_cpu(6, False)
    assert read_topology(FakeSysfs(host)).unplaced == {6}


def test_expectation_leaves_wholly_offline_cores_alone(host: FakeHost) -> None:
    for cpu in (4, 5, 6, 7):
        host.set_cpu(cpu, False)
    topology = read_topology(FakeSysfs(host))
    assert topology.expected_online(4, topology.online) == {0, 1, 2, 3}
    assert topology.expected_online(1, topology.online) == {0}
    # A thread taken offline by hand comes back with its core.
    assert topology.expected_online(2, frozenset({0, 5})) == {0, 1, 4, 5}


@pytest.mark.parametrize(("threads", "label"), [(1, "off"), (2, "2"), (7, "7"), (8, "on")])
def test_control_label(threads: int, label: str) -> None:
    assert control_label(threads, 8) == label


def test_difference_names_the_cpus() -> None:
    assert describe_difference(frozenset({0, 1}), frozenset({0, 1})) is None
    assert (
        describe_difference(frozenset({0, 1, 2, 3}), frozenset({0, 8, 9, 12}))
        == "CPUs 1-3 offline but should be online and CPUs 8-9,12 online but should be offline"
    )
    assert describe_difference(frozenset({0}), frozenset({0, 3})) == "CPU 3 online but should be offline"


def test_a_tree_that_is_no_sysfs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"cpu/possible") as caught:
        read_topology(Sysfs(tmp_path))
    assert caught.value.code == ExitCode.ENVIRONMENT
    path = tmp_path / "sys/devices/system/cpu/possible"
    path.parent.mkdir(parents=True)
    path.write_text("nonsense")
    with pytest.raises(ToolError, match=r"'nonsense' is not a CPU number"):
        read_topology(Sysfs(tmp_path))
