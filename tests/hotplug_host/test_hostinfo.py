import json
from pathlib import Path

from hotplug_host.hostinfo import cpu_model, is_emulated, read_host, read_rcu
from tests.fakes.fakehost import RELEASE, FakeHost, FakeSysfs


def test_golden_cpuinfo(golden: Path) -> None:
    cases = sorted((golden / "cpuinfo").glob("*.txt"))
    assert len(cases) >= 4
    for case in cases:
        expected = json.loads(case.with_suffix(".json").read_text())
        text = case.read_text()
        assert cpu_model(text) == expected["model"], case
        assert is_emulated(text, expected["compatible"]) is expected["emulated"], case
    assert cpu_model("") == "unknown"


def test_host_is_described_from_its_own_files(host: FakeHost) -> None:
    info = read_host(FakeSysfs(host), "kexec", emulated=False)
    assert (info.hostname, info.machine, info.kernel_release) == ("lpar1", "ppc64le", RELEASE)
    assert info.cmdline.endswith("hotplug_acceleration.variant=stock")
    assert info.boot_id.startswith("11111111-")
    assert info.boot_method == "kexec"
    assert info.emulated


def test_emulation_can_be_stated_where_the_host_does_not_show_it(host: FakeHost) -> None:
    host.put("proc/cpuinfo", "model name : AMD EPYC")
    assert not read_host(FakeSysfs(host), "kexec", emulated=False).emulated
    assert read_host(FakeSysfs(host), "kexec", emulated=True).emulated


def test_kvm_shows_in_the_device_tree(host: FakeHost) -> None:
    host.put("sys/firmware/devicetree/base/hypervisor/compatible", "linux,kvm\0")
    assert not read_host(FakeSysfs(host), "kexec", emulated=False).emulated


def test_rcu_settings_in_force_win_over_boot_parameters(host: FakeHost) -> None:
    host.put("sys/kernel/rcu_expedited", "1")
    host.put("sys/module/rcupdate/parameters/rcu_expedited", "0")
    host.put("sys/module/rcutree/parameters/jiffies_till_first_fqs", "3")
    assert read_rcu(FakeSysfs(host)) == {
        "rcu_expedited": "1",
        "rcu_normal": "0",
        "jiffies_till_first_fqs": "3",
    }
