"""A package with Debian's configuration: installed, measured against Debian's kernel, and removed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplug_common.arch import PPC64LE
from hotplug_common.guest import installed, qemu, qmp
from hotplug_host.preflight.system import CRASH_LOADED
from hotplug_timer.reader import read_files
from kernel_qualify.lab import BIN
from tests import ROOT
from tests.lab.hostguest import (
    INSTALL,
    LISTING,
    SERVICES,
    Guest,
    Package,
    assert_bulk,
    assert_dracut_makes_it_and_leaves_no_file,
    assert_measured_and_gone,
    entry_of,
)
from tests.lab.labtools import BOOT_ID, Lab, reboot, rebooted, wait_for

# The disk takes a quarter of an hour to be made, the kernel half an hour and more: both are kept.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(10800)]

GUEST = "lpar"
PAGE = ROOT / "docs/guides/operators/host-kernel.md"
TROUBLE = PAGE.with_name("troubleshooting.md")
#: The guest's own tool makes the initial RAM disk, of a kernel that may lack what Debian has beside drivers.
MADE = {
    "ab_initrd": "make",
    "ab_allow_missing": ["apparmor", "audit", "firewall", "kdump"],
    "ab_switch_timeout": 1800,
}


@pytest.fixture(scope="module")
def guest(lab: Lab) -> Iterator[Guest]:
    yield Guest.up(lab, GUEST, PPC64LE, like=qemu.POWERVM)
    lab.must("down", GUEST)


@pytest.fixture(scope="module")
def package(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    return guest.build(tmp_path_factory.mktemp("host"))


def test_the_guest_is_like_a_partition_of_powervm(guest: Guest) -> None:
    pid = guest.lab.qemu(GUEST)
    assert pid
    assert "-kernel" not in guest.lab.processes()[pid]
    assert guest.ssh("findmnt --noheadings --output SOURCE,FSTYPE /").split() == [installed.ROOT, "xfs"]
    assert "BOOT_IMAGE=/vmlinux-" in guest.ssh("cat /proc/cmdline")
    assert "Radix" in guest.ssh("grep ^MMU /proc/cpuinfo")
    assert {"ibmvscsi", "ibmveth", "dm_mod", "xfs", "nf_tables"} <= set(guest.ssh("lsmod").split())
    assert "policy drop" in guest.ssh("nft list ruleset")
    assert guest.ssh("systemctl --failed --plain --no-legend") == ""
    assert guest.ssh("ppc64_cpu --smt").strip() == "SMT=8"
    assert guest.ssh(f"cat {CRASH_LOADED}").strip() == "1"


def test_a_package_is_booted_switches_in_bulk_and_leaves_no_file(
    guest: Guest, package: Package, tmp_path: Path
) -> None:
    assert_measured_and_gone(guest, package, tmp_path)


def test_an_initial_ram_disk_without_the_disks_driver_is_refused_before_a_boot(
    guest: Guest, package: Package, tmp_path: Path
) -> None:
    before, boot_id = guest.ssh(LISTING), guest.ssh(BOOT_ID)
    guest.lab.must("package", package.artifact, "--format", "deb", "--output-dir", tmp_path / "patched")
    variables = {"deploy_artifact": str(tmp_path / "patched/artifact.json"), "deploy_boot": "once"}
    guest.ssh("echo MODULES=list > /etc/initramfs-tools/conf.d/bare")
    run = guest.lab.play("deploy.yml", GUEST, MADE | variables, timeout=3600)
    guest.ssh("rm /etc/initramfs-tools/conf.d/bare")
    assert run.returncode == 2, run.stdout + run.stderr
    assert "which the host's root is on: name them in" in " ".join(run.stdout.replace("''", "'").split())
    assert (guest.ssh(LISTING), guest.ssh(BOOT_ID)) == (before, boot_id)


def test_the_pages_commands_lead_to_seconds_on_both_kernels_and_back(
    guest: Guest, package: Package, tmp_path: Path
) -> None:
    section = PAGE.read_text().partition("### With the playbooks")[2].partition("### ")[0]
    commands = re.findall(r"^(lpar-lab|ansible-playbook|smt-fleet) (.*)$", section, re.MULTILINE)
    assert len(commands) == 7
    (tmp_path / "more.json").write_text(json.dumps(MADE))
    here = {
        "--config-from lpar17.example.com:": f"--config-from {package.config}",
        "--trim-to lpar17.example.com:": f"--trim-to {package.config.with_name('lsmod')}",
        "ARTIFACT_JSON": str(package.artifact),
        "../inventory/mine": str(guest.lab.project / "inventory/lab.yml"),
        "lpar17.example.com": GUEST,
        "/srv/": f"{tmp_path}/",
        "ab_iterations=5": "ab_iterations=2",
        "-e ab_initrd=make": f"-e @{tmp_path}/more.json",
    }
    before, lives_on = guest.ssh(LISTING), guest.ssh(SERVICES)
    for program, line in commands:
        words = line
        for old, new in here.items():
            words = words.replace(old, new)
        done = subprocess.run(
            [BIN / program, *shlex.split(words)],
            cwd=guest.lab.project / "ansible" if program != "smt-fleet" else tmp_path,
            env={**guest.lab.environment, "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10000,
            check=False,
        )
        assert done.returncode == 0, f"{program} {words}\n{done.stdout[-6000:]}"
        if "deploy" in words:
            assert guest.ssh("uname -r").strip() == package.release
            assert "ibmvscsi" in guest.ssh("lsmod")
    runs = read_files(sorted((tmp_path / "timing/raw" / GUEST).glob("*.jsonl"))).runs
    assert [one.host.kernel_release for one in runs] == [guest.debian, package.release]
    assert_bulk([one for one in runs if one.variant == "patched"])
    assert guest.ssh("uname -r").strip() == guest.debian
    assert (guest.ssh(LISTING), guest.ssh(SERVICES)) == (before, lives_on)


def test_the_pages_commands_switch_without_the_rule_of_kdump_tools(guest: Guest) -> None:
    before = guest.ssh(LISTING)
    begun = guest.ssh("ppc64_cpu --smt=off; udevadm settle; date +%s").strip()
    section = TROUBLE.read_text().partition("## The udev rule of kdump-tools\n")[2].partition("## ")[0]
    *around, last = section.partition("```sh\n")[2].partition("```")[0].splitlines()
    guest.ssh(" && ".join(around))
    assert guest.ssh(f"journalctl --quiet --since @{begun} -t kdump-config") == ""
    guest.ssh(last)
    assert guest.ssh(f"cat {CRASH_LOADED}").strip() == "1"
    assert guest.ssh("ppc64_cpu --smt").strip() == "SMT=8"
    assert guest.ssh(LISTING) == before


def test_a_full_boot_leaves_the_distributions_kernel(guest: Guest, package: Package) -> None:
    before = guest.ssh(LISTING)
    guest.send(package)
    guest.ssh("fallocate -l $(($(df --output=avail -B1 /boot | tail -1) - 8000000)) /boot/full")
    done = guest.lab.run("ssh", GUEST, "--", INSTALL, timeout=1800)
    assert done.returncode
    assert "No space left on device" in done.stdout + done.stderr
    guest.ssh("rm /boot/full")
    guest.boot(guest.debian)
    guest.ssh(f"dpkg --purge {package.name}; grub-editenv - unset saved_entry", 1800)
    assert guest.ssh(LISTING) == before


def test_a_package_that_is_installed_twice_is_there_once(guest: Guest, package: Package) -> None:
    before = guest.ssh(LISTING)
    guest.send(package)
    guest.ssh(INSTALL, 1800)
    once = guest.ssh(LISTING)
    guest.ssh(INSTALL, 1800)
    assert guest.ssh(LISTING) == once
    guest.ssh(f"dpkg --purge {package.name}", 1800)
    assert guest.ssh(LISTING) == before


def test_a_kernel_without_the_disks_driver_in_its_initial_ram_disk_gives_up(
    guest: Guest, package: Package
) -> None:
    """It waits for the root device, and panic= has it reboot to the default kernel."""
    before = guest.ssh(LISTING)
    guest.send(package)
    guest.ssh(INSTALL, 1800)
    guest.ssh(
        "cp -r /etc/initramfs-tools /root/bare && echo MODULES=list > /root/bare/conf.d/bare"
        f" && mkinitramfs -d /root/bare -o /boot/initrd.img-{package.release} {package.release}"
        f" && ! lsinitramfs /boot/initrd.img-{package.release} | grep ibmvscsi",
        1800,
    )
    config = guest.ssh("cat /boot/grub/grub.cfg")
    guest.ssh(f"grub-set-default '{entry_of(config, guest.debian)}'")
    guest.ssh(f"grub-reboot '{entry_of(config, package.release)}'")
    reboot(guest.lab, GUEST)
    assert guest.ssh("uname -r").strip() == guest.debian
    console = guest.lab.must("console", GUEST)
    assert f"Linux version {package.release}" in console
    assert "Rebooting automatically due to panic= boot argument" in console
    guest.ssh(f"dpkg --purge {package.name}; grub-editenv - unset saved_entry", 1800)
    assert guest.ssh(LISTING) == before


def test_after_a_power_cut_a_package_is_installed_again_or_removed(guest: Guest, package: Package) -> None:
    before = guest.ssh(LISTING)
    guest.send(package)
    guest.ssh(f"systemd-run --quiet sh -c '{INSTALL}'")
    folder = f"/lib/modules/{package.release}"
    wait_for(lambda: guest.lab.run("ssh", GUEST, "--", f"test -d {folder}").returncode == 0, 600)
    rebooted(guest.lab, GUEST, lambda: qmp.execute(guest.lab.guests / GUEST, "system_reset"))
    assert guest.ssh("uname -r").strip() == guest.debian
    assert "install ok installed" not in guest.ssh(
        f"dpkg-query --show -f '${{Status}}' {package.name} || true"
    )
    guest.send(package)
    guest.ssh(INSTALL, 1800)
    guest.boot(package.release)
    guest.boot(guest.debian)
    guest.ssh(f"dpkg --purge {package.name}; grub-editenv - unset saved_entry", 1800)
    assert guest.ssh(LISTING) == before


def test_a_panic_of_the_patched_kernel_leaves_a_dump(lab: Lab, package: Package) -> None:
    """In a guest without SMT: with it, QEMU 10.0 may wait for itself after a panic."""
    guest = Guest.up(lab, "panics", PPC64LE, "--cores", "4", "--threads", "1", like=qemu.POWERVM)
    before = guest.ssh(LISTING)
    guest.send(package)
    guest.ssh(INSTALL, 1800)
    guest.boot(package.release)
    assert guest.ssh(f"echo 0 > /sys/devices/system/cpu/cpu3/online; cat {CRASH_LOADED}").strip() == "1"
    # One CPU boots, writes the dump, and reboots.
    rebooted(lab, guest.name, lambda: lab.crash_kernel(guest.name), 2400)
    assert guest.ssh("uname -r").strip() == package.release
    # What the crashed kernel had logged, and its memory.
    log = guest.ssh("cat /var/crash/2*/dmesg.*")
    assert f"Linux version {package.release}" in log
    assert "sysrq: Trigger a crash" in log
    assert guest.ssh("head -c 12 /var/crash/2*/dump.*") == "makedumpfile"
    guest.ssh("rm -r /var/crash/2*")
    guest.boot(guest.debian)
    guest.ssh(f"dpkg --purge {package.name}; grub-editenv - unset saved_entry", 1800)
    assert guest.ssh(LISTING) == before
    lab.must("down", guest.name)


def test_dracut_makes_the_initial_ram_disk_of_a_package(lab: Lab, package: Package) -> None:
    guest = Guest.up(lab, "dracut", PPC64LE, "--initrd", installed.DRACUT, like=qemu.POWERVM)
    assert_dracut_makes_it_and_leaves_no_file(guest, package)
    lab.must("down", guest.name)
