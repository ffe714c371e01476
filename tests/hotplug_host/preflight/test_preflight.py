"""The preflight command: what it reads of a host, and how that is judged."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode
from hotplug_host.preflight import facts as facts_module
from hotplug_host.preflight.drivers import Kernel
from hotplug_host.preflight.facts import Clocksource, Facts, read_facts, without_first
from hotplug_host.preflight.judge import GO, NO_GO, PURPOSES, WARNINGS, Plan, judge
from hotplug_host.preflight.lpar import Platform, lpar_mode, read_platform
from hotplug_host.preflight.preflight import lines
from hotplug_host.preflight.workloads import Cpuset, Tasks, Workloads
from hotplug_host.programs import Ppc64Cpu, read_ppc64_cpu, smt_from_ppc64_cpu
from hotplug_timer import cli
from tests.fakes.fakehost import PSERIES_CPUINFO, RELEASE, FakeHost, FakeSysfs

#: Plans in which SMT has to be switched, and those that boot a kernel.
SWITCHING, BOOTING = ("switch", "time", "ab"), ("ab", "deploy", "install")
CONTROL = b"\0/sys/devices/system/cpu/smt/control\0"


@pytest.fixture
def host(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A fit host: kexec, systemd, no trial kernel, run by root."""
    host.put("proc/cmdline", "root=/dev/vda")
    host.put("proc/powerpc/lparcfg", "lparcfg 1.9\nshared_processor_mode=0\n")
    host.put("proc/sys/kernel/kexec_load_disabled", "0")
    host.put("sys/kernel/kexec_loaded", "0")
    host.put("sys/kernel/kexec_crash_loaded", "0")
    host.put("sys/kernel/fadump/registered", "1")
    host.put("sys/class/watchdog/watchdog0/identity", "pseries-wdt")
    for name in ("kexec", "systemd-run"):
        program(host, name)
    monkeypatch.setenv("PATH", str(host.root / "bin"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("hotplug_host.programs.ADMINISTRATORS", ())
    return host


def program(host: FakeHost, name: str, body: str = "exit 0") -> Path:
    path = host.root / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def task(host: FakeHost, pid: int, name: str, cpus: str, *, kernel: bool = False, policy: int = 0) -> None:
    """Add a process of one thread."""
    after = [
        "S",
        "1",
        "1",
        "1",
        "0",
        "-1",
        str(0x200000 if kernel else 0x400000),
        *["0"] * 31,
        str(policy),
        "0",
    ]
    for directory in (f"proc/{pid}", f"proc/{pid}/task/{pid}"):
        host.put(f"{directory}/stat", f"{pid} ({name}) {' '.join(after)}")
        host.put(f"{directory}/status", f"Name:\t{name}\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}")


def look(host: FakeHost, *files: str) -> Facts:
    return read_facts(FakeSysfs(host), host.root / "var/lib/hotplug-acceleration", files)


def said(facts: Facts, **plan: object) -> tuple[str, str]:
    """Return the verdict and all reasons as one text."""
    judgement = judge(facts, replace(Plan(), **plan))  # type: ignore[arg-type]
    return judgement.verdict, "\n".join(map(str, judgement.reasons))


def test_a_fit_host_is_go_for_everything(host: FakeHost) -> None:
    facts = look(host)
    assert facts.release == RELEASE
    assert (facts.cpus.secondary, facts.cpus.threads_per_core) == ("1-3,5-7", 4)
    assert [said(facts, purpose=purpose) for purpose in PURPOSES] == [(GO, "")] * len(PURPOSES)


def test_a_tree_without_anything_is_judged_and_not_a_traceback(tmp_path: Path) -> None:
    facts = read_facts(FakeSysfs(FakeHost(tmp_path)), tmp_path / "staging", ("/nowhere",))
    assert (facts.smt.interface, facts.kexec.loaded, facts.lock, facts.variant) == (None, None, None, None)
    assert facts.files == {"/nowhere": False}
    assert facts.free_bytes > 0
    json.dumps(asdict(facts))
    for purpose in PURPOSES:
        verdict, reasons = said(facts, purpose=purpose)
        assert verdict == NO_GO
        assert "the SMT level cannot be read" in reasons


@pytest.mark.parametrize(
    ("name", "text", "purposes", "words"),
    [
        (
            "proc/sys/kernel/kexec_load_disabled",
            "1",
            ("ab", "deploy"),
            "find what sets kernel.kexec_load_disabled",
        ),
        ("sys/kernel/kexec_loaded", "1", ("ab", "deploy"), "run kexec -u"),
        (
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality",
            ("ab",),
            "sign the images and set ab_kexec_file_load",
        ),
        ("sys/devices/system/cpu/smt/control", "forceoff", PURPOSES, "its state is 'forceoff'"),
        ("sys/devices/system/cpu/smt/control", "notsupported", SWITCHING, "its state is 'notsupported'"),
        (
            "proc/cmdline",
            "root=/dev/vda hotplug_acceleration.variant=a-1 quiet",
            PURPOSES,
            "that tried variant 'a-1'",
        ),
        ("sys/kernel/rcu_expedited", "1", ("switch",), "somebody else holds it; write 0 to"),
        ("sys/kernel/rcu_normal", "1", ("switch",), "rcu_normal forbids"),
        (
            "var/lib/hotplug-acceleration/lock.json",
            '{"owner": "a@desk", "started": "noon"}',
            PURPOSES,
            "a@desk has been using",
        ),
        (
            "var/lib/hotplug-acceleration/lock.json",
            "{",
            PURPOSES,
            "unknown has been using this host since unknown; wait for",
        ),
    ],
)
def test_what_stops_which_plan(
    host: FakeHost, name: str, text: str, purposes: tuple[str, ...], words: str
) -> None:
    host.put(name, text)
    facts = look(host)
    for purpose in PURPOSES:
        verdict, reasons = said(facts, purpose=purpose)
        assert (verdict == NO_GO) == (purpose in purposes), purpose
        assert (words in reasons) == (purpose in purposes), reasons


@pytest.mark.parametrize(
    ("change", "purposes", "words"),
    [
        ("euid", PURPOSES, "set ansible_user=root"),
        ("systemd-run", ("time", *BOOTING), "systemd-run is missing"),
        ("kexec", ("ab", "deploy"), "install kexec-tools"),
    ],
)
def test_what_is_missing(
    host: FakeHost,
    change: str,
    purposes: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if change == "euid":
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    else:
        (host.root / "bin" / change).unlink()
    facts = look(host)
    for purpose in PURPOSES:
        assert (words in said(facts, purpose=purpose)[1]) == (purpose in purposes)


def test_a_clocksource_that_was_switched_stops_what_boots_kernels(host: FakeHost) -> None:
    directory = "sys/devices/system/clocksource/clocksource0"
    host.put(f"{directory}/current_clocksource", "hpet")
    host.put(f"{directory}/available_clocksource", "tsc hpet acpi_pm ")
    host.put("proc/sys/kernel/random/boot_id", "this-boot")
    assert look(host).clocksource == Clocksource("hpet", ("tsc", "hpet", "acpi_pm"))

    kept = {"before": "tsc", "applied": "hpet", "boot_id": "this-boot"}
    for boot, purposes in (("this-boot", BOOTING), ("an-earlier-one", ())):
        host.put("var/lib/hotplug-acceleration/clocksource.json", json.dumps({**kept, "boot_id": boot}))
        facts = look(host)
        for purpose in PURPOSES:
            reasons = said(facts, purpose=purpose)[1]
            assert ("from tsc to hpet, which no boot keeps" in reasons) == (purpose in purposes)

    host.put("var/lib/hotplug-acceleration/clocksource.json", "{")
    assert look(host).clocksource.record == dict.fromkeys(kept, "unknown")


def test_a_kernel_that_was_deployed_is_there_on_purpose(host: FakeHost) -> None:
    host.put("proc/cmdline", "root=/dev/vda hotplug_acceleration.variant=patched")
    record = {"release": RELEASE, "variant": "patched", "boot": "kexec"}
    host.put("var/lib/hotplug-acceleration/deployed.json", json.dumps(record))
    facts = look(host)
    assert (facts.deployment, facts.deployed) == (record, True)
    for purpose in PURPOSES:
        verdict, reasons = said(facts, purpose=purpose)
        assert (verdict == NO_GO) == (purpose == "ab")
        assert ("which deploy.yml started as 'patched'" in reasons) == (purpose == "ab")

    for changed in ({**record, "release": "6.12-other"}, {**record, "variant": "stock"}, "{"):
        text = changed if isinstance(changed, str) else json.dumps(changed)
        host.put("var/lib/hotplug-acceleration/deployed.json", text)
        for purpose in PURPOSES:
            assert "left over from a run that tried variant 'patched'" in said(look(host), purpose=purpose)[1]

    host.put("proc/cmdline", "root=/dev/vda")
    assert not look(host).deployed
    assert said(look(host)) == (GO, "")


def test_what_brings_a_kernel_back_that_hangs(host: FakeHost) -> None:
    (host.root / "sys/class/watchdog/watchdog0/identity").unlink()
    host.put("sys/kernel/security/lockdown", "none [integrity]")
    for purpose in PURPOSES:
        reasons = said(look(host), purpose=purpose)[1]
        assert ("there is no watchdog" in reasons) == (purpose in ("deploy", "install"))
        assert ("kexec -s is used" in reasons) == (purpose == "deploy")


@pytest.mark.parametrize("purpose", ["ab", "deploy", "install"])
@pytest.mark.parametrize("unsigned", [(), ("vmlinux",)], ids=["signed", "unsigned"])
def test_secure_boot_takes_signed_kernels(host: FakeHost, purpose: str, unsigned: tuple[str, ...]) -> None:
    """By the boot loader, and by kexec of the kernel that it has locked down."""
    told = host.root / "proc/device-tree/ibm,secure-boot"
    told.parent.mkdir(parents=True)
    told.write_bytes(b"\0\0\0\2")
    host.put("sys/kernel/security/lockdown", "none [integrity]")

    verdict, reasons = said(look(host), purpose=purpose, unsigned=unsigned, kexec_file_load=True)

    assert (verdict == NO_GO) == bool(unsigned)
    assert ("vmlinux has no signature; sign the image with a key that the host trusts" in reasons) == bool(
        unsigned
    )
    assert ("the boot loader takes only a signed image" in reasons) == (purpose == "install")


def test_an_installed_kernel_is_read_on_the_host(host: FakeHost) -> None:
    """Its signature counts under secure boot, its configuration always; each is named where it is missing."""
    host.put("proc/mounts", "/dev/nowhere / xfs rw 0 0\n")

    def told() -> tuple[str, str]:
        facts = read_facts(FakeSysfs(host), host.root / "staging", installed=("6.12-debian",))
        return said(facts, purpose="ab", kexec=False)

    verdict, reasons = told()
    assert verdict == WARNINGS
    assert "the configuration of 6.12-debian is not known, so its drivers are not checked" in reasons
    assert "signature" not in reasons

    secure = host.root / "proc/device-tree/ibm,secure-boot"
    secure.parent.mkdir(parents=True)
    secure.write_bytes(b"\0\0\0\2")
    verdict, reasons = told()
    assert verdict == WARNINGS
    assert "/boot/vmlinuz-6.12-debian cannot be read, so its signature is not checked" in reasons

    host.put("boot/vmlinux-6.12-debian", "kernel")
    host.put("boot/config-6.12-debian", "CONFIG_SMP=y\n")
    verdict, reasons = told()
    assert verdict == NO_GO
    assert "secure boot is on, and /boot/vmlinux-6.12-debian has no signature; sign the image" in reasons
    assert "the kernel 6.12-debian lacks CONFIG_XFS_FS" in reasons

    host.put("boot/vmlinux-6.12-debian", "kernel~Module signature appended~")
    needed = "CONFIG_PPC_PSERIES=y\nCONFIG_LPARCFG=y\nCONFIG_FA_DUMP=y\n"
    host.put("boot/config-6.12-debian", f"{needed}CONFIG_XFS_FS=m\n")
    verdict, reasons = told()
    assert (verdict, "comes without modules" in reasons) == (NO_GO, True)
    host.put("lib/modules/6.12-debian/modules.alias", "alias fs-xfs xfs\n")
    for word, stays in (("quiet", True), ("panic=0", True), ("panic=10", False)):
        host.put("proc/cmdline", f"root=/dev/vda {word}")
        verdict, reasons = told()
        assert (verdict == WARNINGS) == stays
        assert ("one that panics stays until somebody resets the host; add panic=10" in reasons) == stays
    assert told() == (GO, "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            'NAME="Red Hat"\nID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n',
            {"ID": "rhel", "ID_LIKE": "fedora", "VERSION_ID": "9.4"},
        ),
        ("ID=debian\n# ID=other\nVERSION_ID='13'", {"ID": "debian", "VERSION_ID": "13"}),
        ("", {}),
    ],
)
def test_distributions_are_told_apart(host: FakeHost, text: str, found: dict[str, str]) -> None:
    host.put("etc/os-release", text)
    assert look(host).os_release == found


def test_what_the_plan_asks_for(host: FakeHost) -> None:
    facts = look(host, "/boot/none.img")
    verdict, reasons = said(facts, initrd="/boot/none.img", need_bytes=1 << 60, staging="/srv")
    assert verdict == NO_GO
    assert "the initial RAM disk /boot/none.img is not on the host; set ab_initrd" in reasons
    assert "/srv has " in reasons
    assert said(facts, purpose="switch", need_bytes=1 << 60) == (GO, "")
    host.put("sys/kernel/security/lockdown", "none [integrity]")
    assert said(look(host), kexec_file_load=True) == (GO, "")


def test_an_initial_ram_disk_is_made_for_what_is_installed_with_modules(host: FakeHost) -> None:
    mib = 1 << 20
    kernel = Kernel("6.12-patched", modules=("ibmvscsi",))
    (host.root / "boot").mkdir()
    for name in ("initrd.img-6.12", "initramfs-0-rescue.img"):
        host.put(f"boot/{name}", "x" * len(name))
    facts = replace(look(host), boot_free_bytes=60 * mib)
    assert facts.boot_initrd_bytes == len("initramfs-0-rescue.img") + 1
    plan = {"purpose": "install", "initrd": "make", "kernels": (kernel,)}
    assert said(facts, **plan)[0] == WARNINGS
    verdict, reasons = said(replace(facts, boot_initrd_bytes=30 * mib), **plan, boot_bytes=30 * mib)
    assert verdict == NO_GO
    assert "/boot has 60 MiB free and the kernel's package and its initial RAM disk need 61 MiB" in reasons
    verdict, reasons = said(facts, **{**plan, "kernels": (replace(kernel, modules=None),)})
    assert verdict == NO_GO
    assert "is to be made for 6.12-patched, which comes without modules; leave ab_initrd out" in reasons
    for purpose in ("ab", "deploy"):
        verdict, reasons = said(facts, **{**plan, "purpose": purpose})
        assert verdict == NO_GO
        assert "kexec boots it without them; deploy it with boot=once" in reasons


def test_the_patched_kernel_is_known_by_its_chunks(host: FakeHost) -> None:
    assert look(host).bulk_chunk is None
    host.put("sys/devices/system/cpu/hotplug/bulk_chunk", "64")
    assert look(host).bulk_chunk == 64


def test_a_package_that_does_not_fit_into_boot(host: FakeHost) -> None:
    mib = 1 << 20
    full = replace(look(host), boot_free_bytes=41 * mib - 1)
    words = "/boot has 40 MiB free and the kernel's package needs 41 MiB there; remove unused kernels"
    verdict, reasons = said(full, purpose="install", boot_bytes=40 * mib)
    assert verdict == NO_GO
    assert words in reasons
    assert (
        said(replace(full, boot_free_bytes=41 * mib), purpose="install", boot_bytes=40 * mib)[0] == WARNINGS
    )
    for fits in (
        said(full, purpose="install"),
        said(full, purpose="deploy", boot_bytes=40 * mib),
        said(replace(full, boot_free_bytes=None), purpose="install", boot_bytes=40 * mib),
    ):
        assert fits[0] != NO_GO
    for boot, expected in (("once", WARNINGS), ("kexec", NO_GO)):
        deployed = replace(full, deployment={"boot": boot})
        assert said(deployed, purpose="install", boot_bytes=40 * mib)[0] == expected


def test_tasks_on_secondary_threads_only_are_named(host: FakeHost) -> None:
    task(host, 10, "dpdk", "5-7")
    task(host, 11, "dpdk", "5-7")
    task(host, 12, "odd ) name", "1,9")
    task(host, 13, "everywhere", "0-7")
    task(host, 14, "first", "4-5")
    task(host, 15, "cpuhp/5", "5", kernel=True)
    host.put("proc/16/stat", "torn")
    verdict, reasons = said(look(host))
    assert verdict == WARNINGS
    assert "tasks dpdk x2 (CPUs 5-7), odd ) name (CPUs 1) may run only on secondary threads" in reasons


def test_nothing_is_disturbed_where_smt_is_off(host: FakeHost) -> None:
    task(host, 10, "once pinned", "1-3")
    FakeSysfs(host).write("/sys/devices/system/cpu/smt/control", "off")
    assert said(look(host)) == (GO, "")


def test_deadline_tasks_are_named(host: FakeHost) -> None:
    task(host, 10, "control loop", "0-7", policy=6)
    assert "tasks control loop (CPUs 0-7) in SCHED_DEADLINE" in said(look(host))[1]


def test_many_tasks_make_one_short_line(host: FakeHost) -> None:
    groups = tuple(Tasks(f"t{number}", "1", 2) for number in range(9))
    facts = replace(look(host), workloads=Workloads(groups, (), ()))
    assert "t3 x2 (CPUs 1) and 10 more may run" in said(facts)[1]


@pytest.mark.parametrize(
    ("cpuset", "words"),
    [
        (Cpuset("/a", 2, "1-3", "isolated"), "cpuset partition /a (isolated) loses CPUs 1-3 of 1-3"),
        (Cpuset("/a", 2, "0-3", "root"), "cpuset partition /a (root) loses CPUs 1-3 of 0-3"),
        (Cpuset("/a", 2, "1-3", "member"), "all it has"),
        (Cpuset("/a", 2, "0-3", "member"), ""),
        (Cpuset("/a", 1, "0-7", None), "for good: version 1 does not give them back; write its cpuset.cpus"),
        (Cpuset("/a", 1, "0,4", None), ""),
    ],
)
def test_cpusets_that_lose_cpus(host: FakeHost, cpuset: Cpuset, words: str) -> None:
    facts = replace(look(host), workloads=Workloads((), (), (cpuset,)))
    verdict, reasons = said(facts)
    assert (verdict, bool(reasons)) == ((WARNINGS, True) if words else (GO, False))
    assert words in reasons


def test_cpusets_of_both_versions_are_read(host: FakeHost) -> None:
    host.put("sys/fs/cgroup/system.slice/cpuset.cpus", "")
    host.put("sys/fs/cgroup/db/cpuset.cpus", "4-7")
    host.put("sys/fs/cgroup/db/cpuset.cpus.partition", "root")
    assert look(host).workloads.cpusets == (Cpuset("/db", 2, "4-7", "root"),)
    host.put("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7")
    host.put("sys/fs/cgroup/cpuset/docker/one/cpuset.cpus", "0-3")
    assert look(host).workloads.cpusets == (Cpuset("/docker/one", 1, "0-3", None),)


def test_isolated_cpus_that_go_are_named(host: FakeHost) -> None:
    host.put("sys/devices/system/cpu/isolated", "4-7")
    host.put("sys/devices/system/cpu/nohz_full", "(null)")
    _, reasons = said(look(host))
    assert "isolcpus has CPUs 5-7, which smt=off takes" in reasons
    assert "nohz_full" not in reasons


def test_services_that_undo_or_disturb_a_run(host: FakeHost) -> None:
    for name in ("smtstate", "irqbalance", "tuned", "sshd"):
        host.put(f"etc/systemd/system/multi-user.target.wants/{name}.service", "")
    facts = look(host)
    assert facts.services == ("irqbalance", "smtstate", "tuned")
    for purpose in PURPOSES:
        reasons = said(facts, purpose=purpose)[1]
        assert ("smtstate.service brings back at each boot" in reasons) == (purpose != "time")
        assert ("irqbalance and tuned may move interrupts" in reasons) == (purpose in ("time", "ab"))


@pytest.mark.parametrize(
    ("mounts", "read_only"),
    [
        ("/dev/sda2 / xfs rw,relatime 0 0\n/dev/sda1 /boot ext4 ro,relatime 0 0\n", True),
        ("/dev/sda2 / xfs ro,relatime 0 0\n/dev/sda1 /boot ext4 rw 0 0\n", False),
        ("/dev/sda2 / btrfs ro,relatime 0 0\n", True),
        ("/dev/sda2 / xfs rw,errors=remount-ro 0 0\nnonsense\n", False),
        ("", False),
    ],
)
def test_a_boot_directory_that_cannot_be_written(host: FakeHost, mounts: str, read_only: bool) -> None:
    host.put("proc/mounts", mounts)
    for purpose in PURPOSES:
        reasons = said(look(host), purpose=purpose)[1]
        assert ("/boot is mounted read-only" in reasons) == (read_only and purpose == "install")


def test_what_an_lpar_may_take(host: FakeHost) -> None:
    host.put("proc/powerpc/lparcfg", "shared_processor_mode=1\npartition_entitled_capacity=450\ncapped=0\n")
    facts = look(host)
    assert (facts.platform.entitled, facts.platform.capped) == (4.5, False)
    assert "processors: shared, entitled to 4.5, uncapped" in lines(facts, judge(facts, Plan()), Plan())


@pytest.mark.parametrize("name", ["fadump/registered", "fadump_registered"])
def test_a_dump_by_firmware_is_as_good_as_kdump(host: FakeHost, name: str) -> None:
    host.put("sys/kernel/fadump/registered", "0")
    assert "neither kdump nor fadump is ready" in said(look(host))[1]
    (host.root / "sys/kernel/fadump/registered").unlink()
    host.put(f"sys/kernel/{name}", "1")
    assert "leaves no dump" not in said(look(host))[1]


@pytest.mark.parametrize("purpose", BOOTING)
def test_a_deployed_kernel_runs_without_kdump_only_where_that_is_allowed(
    host: FakeHost, purpose: str
) -> None:
    # Firmware keeps the memory for a dump whatever the kernel is called.
    host.put("sys/kernel/kexec_crash_loaded", "1")
    assert "kdump" not in said(look(host), purpose=purpose)[1]
    host.put("sys/kernel/fadump/registered", "0")
    verdict, reasons = said(look(host), purpose=purpose)
    assert ('allow that with ab_allow_missing=["kdump"]' in reasons) == (purpose != "ab")
    assert (verdict == NO_GO) == (purpose != "ab")
    assert "kdump" not in said(look(host), purpose=purpose, allow_missing=("kdump",))[1]


def test_programs_that_udev_runs_for_a_cpu_are_named(host: FakeHost) -> None:
    assert "udev" not in said(look(host))[1]
    host.put(
        "usr/lib/udev/rules.d/50-kdump-tools.rules", 'SUBSYSTEM=="cpu", PROGRAM="/usr/sbin/kdump-config"'
    )
    verdict, reasons = said(look(host))
    assert verdict == WARNINGS
    assert "each CPU that comes or goes (50-kdump-tools.rules)" in reasons


def test_warnings_about_the_machine(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.put("sys/kernel/fadump/registered", "0")
    host.put("proc/powerpc/lparcfg", "shared_processor_mode=1\n")
    host.put("sys/kernel/rcu_expedited", "1")
    host.put("boot/vmlinux", "")
    monkeypatch.setattr(facts_module, "_free_bytes", lambda _: 1 << 20)
    verdict, reasons = said(look(host), purpose="time")
    assert verdict == WARNINGS
    for words in (
        "neither kdump nor fadump is ready",
        "shares its processors",
        "expedited in what is timed",
        "/boot has 1 MiB",
    ):
        assert words in reasons


@pytest.mark.parametrize(
    ("lparcfg", "mode"),
    [
        ("lparcfg 1.9\nshared_processor_mode=1\n", "shared"),
        ("shared_processor_mode=0", "dedicated"),
        ("not_shared_processor_mode=1", None),
        ("", None),
    ],
)
def test_the_processors_of_an_lpar(lparcfg: str, mode: str | None) -> None:
    assert lpar_mode(lparcfg) == mode


def test_what_is_below_the_kernel(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    fs = FakeSysfs(host)
    assert read_platform(fs) == Platform(None, None, None)
    host.put("proc/cpuinfo", "flags : fpu hypervisor sse")
    assert read_platform(fs).hypervisor == "unknown"
    host.put("sys/class/dmi/id/sys_vendor", "QEMU")
    assert read_platform(fs).hypervisor == "QEMU"
    host.put("proc/cpuinfo", PSERIES_CPUINFO)
    assert read_platform(fs).hypervisor == "PowerVM or compatible"
    host.put("proc/cpuinfo", "")
    host.put("proc/powerpc/lparcfg", "lparcfg 1.9")
    assert read_platform(fs).hypervisor == "PowerVM or compatible"
    tree = tmp_path / "proc/device-tree"
    (tree / "hypervisor").mkdir(parents=True)
    (tree / "hypervisor/compatible").write_bytes(b"linux,kvm\0")
    assert read_platform(fs).hypervisor == "linux,kvm"
    for value, on in ((0, False), (1, False), (2, True)):
        (tree / "ibm,secure-boot").write_bytes(bytes([0, 0, 0, value]))
        assert read_platform(fs).secure_boot is on
    (tree / "ibm,secure-boot").unlink()
    efi = tmp_path / "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    efi.parent.mkdir(parents=True)
    efi.write_bytes(b"\6\0\0\0\1")
    assert read_platform(fs).secure_boot is True


@pytest.mark.parametrize(
    ("content", "control", "way"),
    [
        (CONTROL, "on", "smt/control"),
        (CONTROL, "4", "smt/control"),
        (CONTROL, None, "cpuN/online"),
        (CONTROL, "notimplemented", "cpuN/online"),
        (b"", "on", "cpuN/online"),
    ],
)
def test_the_way_of_ppc64_cpu(host: FakeHost, content: bytes, control: str | None, way: str) -> None:
    path = program(host, "ppc64_cpu")
    path.write_bytes(path.read_bytes() + content)
    program(host, "dpkg-query", "echo 1.3.11-1")
    program(host, "rpm", "exit 1")
    assert read_ppc64_cpu(control) == Ppc64Cpu(str(path), "1.3.11-1", bool(content), way)


def test_an_old_ppc64_cpu_on_a_kernel_that_can_do_better_is_named(host: FakeHost) -> None:
    program(host, "ppc64_cpu", "echo SMT=8")
    _, reasons = said(look(host))
    assert "ppc64_cpu (of unknown version) goes through cpuN/online one by one, though" in reasons
    control = host.root / "sys/devices/system/cpu/smt/control"
    for change in (lambda: control.write_text("notimplemented"), control.unlink):
        change()
        facts = look(host)
        assert (facts.smt.interface, facts.smt.level) == ("ppc64_cpu", "8")
        assert said(facts) == (GO, "")


@pytest.mark.parametrize(
    ("cmdline", "variant"),
    [
        ("root=/dev/vda", None),
        ("root=/dev/vda hotplug_acceleration.variant=a-1 quiet", "a-1"),
        ("hotplug_acceleration.variant=b", "b"),
        ("not_hotplug_acceleration.variant=b", None),
    ],
)
def test_the_tag_of_a_trial_kernel(host: FakeHost, cmdline: str, variant: str | None) -> None:
    host.put("proc/cmdline", cmdline)
    assert look(host).variant == variant


@pytest.mark.parametrize(
    ("modes", "mode"), [("none [integrity] confidentiality", "integrity"), ("[none] integrity", "none")]
)
def test_lockdown(host: FakeHost, modes: str, mode: str) -> None:
    host.put("sys/kernel/security/lockdown", modes)
    assert look(host).kexec.lockdown == mode


@pytest.mark.parametrize(
    ("output", "level"),
    [
        ("SMT=8", "8"),
        ("SMT is off", "off"),
        ("SMT=1", "off"),
        ("SMT=4: 0-1\nSMT=8: 2-3", "mixed"),
        ("Machine is not SMT capable", None),
    ],
)
def test_what_ppc64_cpu_says(output: str, level: str | None) -> None:
    assert smt_from_ppc64_cpu(output) == level


@given(st.sets(st.integers(0, 4096)))
def test_any_list_without_its_first_cpu(cpus: set[int]) -> None:
    assert without_first(format_cpulist(cpus)) == format_cpulist(sorted(cpus)[1:])


def test_words_and_exit_code(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["preflight", f"--sysroot={host.root}", f"--staging={host.root}/staging"]
    assert cli.main(arguments) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "go for ab"
    assert "CPUs: 0-7 online of 0-7, 4 threads per core" in lines
    assert "processors: dedicated" in lines
    assert "kdump: not loaded" in lines
    assert "fadump: registered" in lines
    host.put("sys/kernel/kexec_loaded", "1")
    assert cli.main(arguments) == ExitCode.ENVIRONMENT
    captured = capsys.readouterr()
    assert "no-go: somebody has loaded a kernel for kexec already; make sure" in captured.out
    assert captured.err == "hotplug-timer: error: no-go for ab; 1 above to see to\n"
    assert cli.main([*arguments, "--json", "--for=time"]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["purpose"], answer["facts"]["release"]) == (GO, "time", RELEASE)
    assert cli.main([*arguments, "--json"]) == ExitCode.OK
    reasons = json.loads(capsys.readouterr().out)["reasons"]
    assert [(reason["level"], reason["step"]) for reason in reasons] == [
        (NO_GO, "make sure that it is not needed, and run kexec -u")
    ]
