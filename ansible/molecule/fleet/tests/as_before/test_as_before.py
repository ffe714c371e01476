"""A guest before anything has been deployed, and after all of it has been rolled back."""

from __future__ import annotations

from conftest import State
from testinfra.host import Host


def test_it_runs_its_default_kernel_with_the_same_cpus(now: State, before: State) -> None:
    assert now == before


def test_its_kernel_is_no_trial(host: Host) -> None:
    assert "hotplug_acceleration." not in host.file("/proc/cmdline").content_string


def test_nothing_is_left_there(host: Host) -> None:
    assert not host.file("/var/lib/hotplug-acceleration").exists
    assert not host.file("/boot/hotplug-acceleration").exists
    assert host.file("/sys/kernel/kexec_loaded").content_string.strip() == "0"
