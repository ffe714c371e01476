"""A guest that boots what is installed on its disk, as hosts do, and a kernel built for it as a package."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from hotplug_common.arch import PPC64LE, Arch
from hotplug_common.guest import grub
from hotplug_timer.reader import Run, read_files
from tests import ROOT
from tests.lab.labtools import Lab, reboot

#: The files, and what GRUB is told; the disk is the first or the second one, as the boot before found them.
LISTING = (
    "find /boot /lib/modules /etc /var/lib/kdump -printf '%y %p\\n' | sort;"
    " sed -E 's/(hd|ahci)[01]/\\1/g' /boot/grub/grub.cfg | sha256sum"
)
#: The same without the copies of their metadata that LVM's tools keep, which dracut asks.
DRACUT_LISTING = f"{{ {LISTING}; }} | grep -v ' /etc/lvm/[a-z]*/vg0'"
#: What the hook of kdump-tools in Debian 13 leaves of a kernel that is removed where there is no
#: update-initramfs. That of Debian testing leaves none.
KDUMP_LEAVES = "rm -f /var/lib/kdump/*-{}"
HOST_KERNEL = ROOT / "docs/guides/operators/host-kernel.md"
#: What a host lives on: modules in use, mounts (disks change their names), firewall, and that no unit failed.
SERVICES = (
    "lsmod | cut -d' ' -f1 | sort; findmnt --real --list --noheadings --output TARGET,UUID,FSTYPE;"
    " nft list ruleset; systemctl --failed --plain --no-legend"
)
#: By it udev is to load kdump again for each CPU that comes online; most of a slow smt=on goes there.
RULE = "/etc/udev/rules.d/50-kdump-tools.rules"
WITHOUT_RULE = f"ln -s /dev/null {RULE}; udevadm control --reload"
WITH_RULE = f"rm {RULE}; udevadm control --reload"
PACKAGE = "/root/kernel.deb"
#: As anybody would; its hooks make the initial RAM disk and the boot entry.
INSTALL = f"dpkg --install {PACKAGE}"


def wish(name: str) -> str | None:
    """Return what the environment asks for beside the default: LIKE_HOST_CONFIG and others below."""
    return os.environ.get(f"LIKE_HOST_{name}")


@dataclass(frozen=True)
class Package:
    """The package of a kernel, and the kernel's release."""

    name: str
    file: Path
    release: str
    artifact: Path
    config: Path
    """The configuration that it was built from; what the guest had loaded is beside it,
    unless LIKE_HOST_ARTIFACT names the package."""

    @classmethod
    def of(cls, artifact: Path, config: Path) -> Package:
        built = json.loads(artifact.read_text())
        (image,) = [one for one in built["packages"] if one["name"].startswith("linux-image-")]
        return cls(image["name"], artifact.with_name(image["file"]), built["release"], artifact, config)


@dataclass(frozen=True)
class Guest:
    """The running guest, and the release of the kernel that Debian's packages brought."""

    lab: Lab
    name: str
    arch: Arch
    debian: str

    @classmethod
    def up(cls, lab: Lab, name: str, arch: Arch, *words: str, like: str) -> Guest:
        """Start it; its disk may have to be made first."""
        lab.must("up", name, "--like", like, *words, timeout=7200)
        running = cls(lab, name, arch, lab.must("ssh", name, "--", "uname -r").strip())
        running.ssh("update-grub")
        # The file in which GRUB keeps the default entry is there from the first time on that one is chosen.
        running.choose(running.debian)
        return running

    def ssh(self, command: str, timeout: float = 600) -> str:
        return self.lab.must("ssh", self.name, "--", command, timeout=timeout)

    def build(self, folder: Path) -> Package:
        """Return the patched kernel's package: the environment's, or one with the guest's modules."""
        if given := wish("ARTIFACT"):
            return Package.of(Path(given), Path(given).with_name("config"))
        # Half an hour's build; one of a configuration of minutes shows the same of all but drivers.
        given = wish("CONFIG")
        text = Path(given).read_text() if given else self.ssh(f"cat /boot/config-{self.debian}")
        (folder / "config").write_text(text)
        (folder / "lsmod").write_text(self.ssh("lsmod"))
        words = (
            *("--arch", self.arch.name, "--variant", "patched", "--package", "deb", "--print-artifact"),
            *("--config-from", folder / "config", "--trim-to", folder / "lsmod"),
        )
        return Package.of(
            Path(self.lab.must("build-kernel", *words, timeout=10000).strip()), folder / "config"
        )

    def send(self, package: Package) -> None:
        """Copy a package to the guest."""
        self.lab.must("ssh", self.name, "--", f"cat > {PACKAGE}", stdin=package.file.read_bytes())

    def choose(self, release: str) -> None:
        """Make a kernel GRUB's default by the distribution's own tool."""
        self.ssh(f"grub-set-default '{entry_of(self.ssh('cat /boot/grub/grub.cfg'), release)}'")

    def boot(self, release: str) -> None:
        """Make a kernel GRUB's default, and boot it."""
        self.choose(release)
        reboot(self.lab, self.name)
        assert self.ssh("uname -r").strip() == release


def entry_of(config: str, release: str) -> str:
    """Return GRUB's name for the menu entry of a kernel, which is in a submenu."""
    menu = re.search(r"^submenu .*\$menuentry_id_option '([^']+)'", config, re.MULTILINE)
    entry = re.search(rf"\$menuentry_id_option '(gnulinux-{re.escape(release)}-advanced-[^']+)'", config)
    assert menu, config
    assert entry, config
    return f"{menu[1]}>{entry[1]}"


def assert_measured_and_gone(guest: Guest, package: Package, folder: Path) -> None:
    """Install a package, compare its kernel with Debian's by boots of GRUB, and remove it.

    The kernel switches in bulk, the host lives on the same as before, and no file is left.
    """
    # Where the results are to stay: a longer run's are the kept data of the documentation.
    results = Path(wish("RESULTS") or folder / "results")
    boots, iterations = (int(wish(name) or "2") for name in ("BOOTS", "ITERATIONS"))
    before, lives_on = guest.ssh(LISTING), guest.ssh(SERVICES)
    results.mkdir(parents=True, exist_ok=True)
    time_with_and_without_rule(guest, "debian", results)

    guest.send(package)
    guest.ssh(INSTALL, 1800)
    installed = guest.ssh(LISTING)
    kernel = grub.PLATFORMS[guest.arch.name].kernel
    for name in (f"/boot/initrd.img-{package.release}", f"/boot/{kernel}-{package.release}"):
        assert f"f {name}\n" in installed
    guest.ssh(WITHOUT_RULE)

    run = guest.lab.play(
        "ab.yml",
        guest.name,
        {
            "ab_variants": [
                {"name": "debian", "release": "running"},
                {"name": "patched", "release": package.release},
            ],
            "ab_results_dir": str(results),
            "ab_repeat": boots // 2,
            "ab_iterations": iterations,
            "ab_traces": ["states"],
        },
        timeout=7200,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    runs = read_files(sorted((results / "raw" / guest.name).glob("*.jsonl"))).runs
    releases = {"debian": guest.debian, "patched": package.release}
    assert [one.variant for one in runs] == ["debian", "patched", "patched", "debian"] * (boots // 2)
    for one in runs:
        assert one.host.kernel_release == releases[one.variant]
        assert (one.outcome, one.restored, one.host.boot_method) == ("complete", True, "firmware")
    assert_bulk([one for one in runs if one.variant == "patched"])
    assert guest.ssh("uname -r").strip() == guest.debian

    guest.boot(package.release)
    assert guest.ssh(SERVICES) == lives_on
    assert "CPUs go down one by one" not in guest.ssh("dmesg")
    guest.ssh(WITH_RULE)
    time_with_and_without_rule(guest, "patched", results)
    guest.boot(guest.debian)
    guest.ssh(f"dpkg --purge {package.name}", 1800)
    assert guest.ssh(LISTING) == before
    assert guest.ssh(SERVICES) == lives_on


def assert_dracut_makes_it_and_leaves_no_file(guest: Guest, package: Package) -> None:
    """Install a package where dracut makes the initial RAM disks, boot its kernel, and remove it."""
    before, lives_on = guest.ssh(DRACUT_LISTING), guest.ssh(SERVICES)
    guest.send(package)
    guest.ssh(INSTALL, 1800)
    assert "lib/dracut/" in guest.ssh(f"lsinitrd /boot/initrd.img-{package.release}")
    guest.boot(package.release)
    assert guest.ssh(SERVICES) == lives_on
    guest.boot(guest.debian)
    guest.ssh(f"dpkg --purge {package.name}", 1800)
    assert KDUMP_LEAVES.format("RELEASE") in HOST_KERNEL.read_text()
    guest.ssh(KDUMP_LEAVES.format(package.release))
    assert guest.ssh(DRACUT_LISTING) == before


def time_with_and_without_rule(guest: Guest, kernel: str, results: Path) -> None:
    """Time switches in one boot as the host is, and without the rule; the timer waits for udev."""
    guest.lab.install_timer(guest.name, results)
    # What the rule runs for four CPUs, as on x86-64, is over within the settle time.
    lasting = guest.arch is PPC64LE
    for name, before, after in (("as-installed", "true", "true"), ("without-rule", WITHOUT_RULE, WITH_RULE)):
        variant = f"{kernel}-{name}"
        iterations = wish("ITERATIONS") or "2"
        words = f"smt=off smt=on --variant {variant} --iterations {iterations} --output {variant}.jsonl"
        printed = guest.ssh(f"{before}; python3 hotplug-timer.pyz run {words} 2>&1; {after}", 3600)
        assert ("udev was done" in printed) == (lasting and name == "as-installed"), printed
        (results / f"{variant}.jsonl").write_text(guest.ssh(f"cat {variant}.jsonl"))
    guest.ssh("rm hotplug-timer.pyz *.jsonl")


def assert_bulk(runs: list[Run]) -> None:
    """All CPUs went in one chunk, none of them one by one, at a grace period or two, and one rendezvous.

    An A/B run counts in the first boot of each kernel alone.
    """
    counted = [run for run in runs if any(item.counts for item in run.iterations)]
    assert counted
    for run in counted:
        off, on = (item.counts for item in run.iterations if item.counts)
        assert off
        assert on
        assert (off["chunks"], off["serial_chunks"]) == (1, 0)
        assert (off["synchronize_rcu"], off["stop_machine"], off["domain_rebuild"]) == (2, 1, 1)
        assert (on["synchronize_rcu"], on["stop_machine"], on["domain_rebuild"]) == (1, 0, 1)
