"""The base disk: Debian with systemd, SSH and the tools, as a raw ext4 image without partitions."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hotplug_common import debian, lock, process, scratch
from hotplug_common import needs as preflight
from hotplug_common.arch import PPC64LE, Arch
from hotplug_common.debian import Suite
from hotplug_common.guest import grub, qemu
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, once_every
from hotplug_host.errors import ExitCode, ToolError

RECIPE = 2
"""Raise it when build() changes what it makes from the same inputs."""
RELEASES = ("trixie", "forky")
"""Debian releases, the preferred one first; the other is for a mirror that is between two states of the
first. Not an older one: there `ppc64_cpu` switches CPU by CPU. A guest is thrown away and listens on the
loopback only, so one consistent archive is worth more here than the latest fixes from a second one."""
UNSETTLED = re.compile(r"Mirror sync in progress|File has unexpected size|Hash Sum mismatch|404 +Not Found")
"""What apt reports of a mirror whose files do not belong together, or that lacks some of its lists."""
SIZE = "2G"
RECORD = "disk.json"
UUID = "3a1c5f0e-6d0b-4a43-9d51-1a6b1a0c0de5"
"""Fixed, so that the same tree gives the same image."""
OVERLAY = Path(__file__).parent / "data" / "rootfs"
"""Files laid over those of the packages of all guests."""
OVERLAY_QUICK, OVERLAY_FULL = OVERLAY.with_name("rootfs-quick"), OVERLAY.with_name("rootfs-full")
"""Files that only guests without, or with, the units of any host have."""
OVERLAY_TAR = "overlay.tar"
WORK = "LPAR_LAB_WORK"
"""Variable by which hooks find what Style.prepare() fetched."""
BINFMT = Path("/proc/sys/fs/binfmt_misc")

PACKAGES = (
    "dbus",
    "ethtool",
    "iproute2",
    "kexec-tools",
    "kmod",
    "less",
    "openssh-server",
    "procps",
    "psmisc",
    "python3",
    "rsync",
    "systemd-sysv",
    "trace-cmd",
    "udev",
    "util-linux-extra",
)
ARCH_PACKAGES = {PPC64LE.name: ("powerpc-utils",)}

SEED_UNIT = "etc/systemd/system/lpar-lab-seed.service"
NETWORK_UNIT = "etc/systemd/system/lpar-lab-network.service"
NEEDED_BY_SSH = "etc/systemd/system/ssh.service.requires"
WANTED = "etc/systemd/system/multi-user.target.wants"
PACKAGED = "/usr/lib/systemd/system"
"""Where packages have their units."""
ENABLED = {f"{NEEDED_BY_SSH}/lpar-lab-seed.service": f"/{SEED_UNIT}"}
"""Links that enable a unit of all guests: path to target."""
ENABLED_IN_FULL = {f"{WANTED}/systemd-networkd.service": f"{PACKAGED}/systemd-networkd.service"}
"""Links that only a guest with the units of any host has."""
ENABLED_FOR_SPEED = {
    f"{NEEDED_BY_SSH}/lpar-lab-network.service": f"/{NETWORK_UNIT}",
    f"{WANTED}/dbus.service": "/dev/null",
}
"""Links that only a guest without those units has. D-Bus is started by its first user there."""
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "ldconfig.service",
    "systemd-firstboot.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
    "systemd-timesyncd.service",
    "systemd-update-done.service",
    "tmp.mount",
)
"""Units a measuring guest does not need: they only cost boot time or disturb a timed run."""
MASKED_FOR_SPEED = (
    "dev-mqueue.mount",
    "getty.target",
    "kdump-tools.service",
    "modprobe@configfs.service",
    "modprobe@drm.service",
    "modprobe@fuse.service",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-creds.socket",
    "systemd-factory-reset.socket",
    "systemd-hostnamed.socket",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-journalctl.socket",
    "systemd-logind-varlink.socket",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-mute-console.socket",
    "systemd-networkd-persistent-storage.service",
    "systemd-networkd-resolve-hook.socket",
    "systemd-networkd-varlink-metrics.socket",
    "systemd-networkd-varlink.socket",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-sysinstall.socket",
    "systemd-sysusers.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-tmpfiles-setup-dev-early.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-tmpfiles-setup.service",
    "systemd-udev-load-credentials.service",
    "systemd-user-sessions.service",
)
"""Units of any host that a guest with the lab's kernel can do without. Under emulation each is a second of
two host CPUs: without them, a guest with 16 CPUs answers over SSH in half of the time."""
GENERATORS_FOR_SPEED = (
    "systemd-debug-generator",
    "systemd-factory-reset-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-ssh-generator",
    "systemd-system-update-generator",
)
"""Programs that make units of what such a guest does not have."""


class UnsettledMirrorError(ToolError):
    """The mirror is between two states of a release."""


@dataclass(frozen=True)
class Disk:
    """A finished base disk. `image` is a raw ext4 image; never open it for writing."""

    arch: str
    release: str
    key: str
    image: Path

    @property
    def boot(self) -> Path:
        """/boot of guests with a boot loader, without a kernel; the base disk's own is empty."""
        return self.image.with_name("boot")

    @property
    def kernel(self) -> str:
        """Release of the kernel that is installed on it; empty for none."""
        return str(json.loads(self.image.with_name(RECORD).read_text()).get("kernel", ""))


class Style:
    """How a base disk is made: this one has no kernel, and is one file system without partitions."""

    name = ""
    """What such guests are like."""
    packages: tuple[str, ...] = ()
    """Packages that it has beside those of all."""
    needs: tuple[preflight.Need, ...] = ()
    """What making it takes on this machine, beside the tools for all."""
    size = SIZE
    quick = True
    """Whether guests do without units that any host has (each *_FOR_SPEED, OVERLAY_QUICK)."""

    def of(self, arch: Arch) -> str:
        """Name the disks of this style for an architecture, in file names."""
        return "-".join(word for word in (arch.name, self.name) if word)

    def files(self) -> dict[str, bytes]:
        """Return the files laid over the packages' own, by path inside the guest."""
        return overlay_files(OVERLAY) | overlay_files(OVERLAY_QUICK if self.quick else OVERLAY_FULL)

    def links(self) -> dict[str, str]:
        """Return the links laid over the packages' own: path inside the guest to target."""
        if not self.quick:
            return links(ENABLED_IN_FULL, MASKED)
        return links(ENABLED_FOR_SPEED, (*MASKED, *MASKED_FOR_SPEED), GENERATORS_FOR_SPEED)

    def hooks(self, arch: Arch) -> list[str]:
        """Return what mmdebstrap does in the installed system."""
        return grub.hooks(arch)

    def check(self) -> None:
        """Raise ToolError where this user may not make the disk."""

    def prepare(self, arch: Arch, work: Path, paths: Paths, say: Say) -> None:
        """Fetch into WORK what the hooks need."""

    def pack(self, root_tar: Path, finished: Path, work: Path) -> dict[str, str]:
        """Make the image in FINISHED of the installed system; return what the disk's record has of it."""
        _pack(root_tar, finished, work)
        return {}


PLAIN = Style()


def packages(arch: Arch, style: Style = PLAIN) -> tuple[str, ...]:
    """Return the packages asked for, dependencies not counted."""
    return (*PACKAGES, *ARCH_PACKAGES.get(arch.name, ()), *grub.packages(arch), *style.packages)


def overlay_files(root: Path) -> dict[str, bytes]:
    """Read the files laid over the packages' own, by path inside the guest."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def links(
    enabled: Mapping[str, str], masked: Iterable[str], generators: Iterable[str] = ()
) -> dict[str, str]:
    """Return the links that enable units, and mask others: path inside the guest to target."""
    off = [f"system/{unit}" for unit in masked] + [f"system-generators/{name}" for name in generators]
    return {**ENABLED, **enabled, **{f"etc/systemd/{path}": "/dev/null" for path in off}}


def overlay_tar(files: dict[str, bytes], symlinks: dict[str, str]) -> bytes:
    """Pack files (0644, root) and links, with their folders, into a tar that depends on nothing else."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        folders = {p.as_posix() for path in (*files, *symlinks) for p in Path(path).parents if p.name}
        for folder in sorted(folders):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for path, content in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
        for path, target in sorted(symlinks.items()):
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


def sources(release: str) -> str:
    """Return the sources.list from which a disk of that release is made, for mmdebstrap to read."""
    lines = debian.source_lines([Suite(debian.MAIN, release)], debian.mirrors())
    return "".join(line + "\n" for line in lines)


def archive_options(arch: Arch) -> list[str]:
    """Return the options with which mmdebstrap reads the archive as the machine's own apt does."""
    return [
        f"--architectures={arch.debian}",
        f"--keyring={debian.KEYRING}",
        # Whether its programs run here is checked where they have to, with what to do.
        "--skip=check/qemu",
        '--aptopt=APT::Sandbox::User "root"',
        '--aptopt=Acquire::Retries "2"',
        f'--aptopt={debian.CHECK_AGE} "{str(debian.checks_age()).lower()}"',
    ]


def cache_key(arch: Arch, release: str, style: Style = PLAIN) -> str:
    """Hash everything this project decides about the disk. Package versions are the archive's, not ours."""
    files = {path: hashlib.sha256(content).hexdigest() for path, content in style.files().items()}
    recipe = {
        "recipe": RECIPE,
        "arch": arch.debian,
        "suites": [asdict(Suite(debian.MAIN, release))],
        "packages": packages(arch, style),
        "size": style.size,
        "files": files,
        "links": style.links(),
        "hooks": style.hooks(arch),
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()


def ensure_foreign_programs_run(arch: Arch, binfmt: Path = BINFMT) -> None:
    """Make the kernel run `arch`'s programs through QEMU user mode, which installing packages needs.

    The caller has checked for preflight.foreign_programs().
    Mounts binfmt_misc and enables the handler when this process may.
    Raises ToolError (ENVIRONMENT) with the command to run when it may not or cannot.
    """
    if arch.native:
        return
    handler = binfmt / arch.binfmt
    if _enabled(handler):
        return
    if os.geteuid() == 0:
        if not (binfmt / "register").exists():
            process.run(["mount", "-t", "binfmt_misc", "binfmt_misc", binfmt])
        process.run([preflight.which("update-binfmts") or "update-binfmts", "--enable", arch.binfmt])
    if not _enabled(handler):
        raise ToolError(
            f"this machine does not run {arch.name} programs ({handler} is not enabled)",
            f"as root: mount -t binfmt_misc binfmt_misc {binfmt}; update-binfmts --enable {arch.binfmt}",
        )


def _enabled(handler: Path) -> bool:
    try:
        return handler.read_text().startswith("enabled")
    except OSError:
        return False


def make_overlay(disk: Disk, folder: Path) -> None:
    """Give a guest's folder a disk over the base disk; ToolError (ENVIRONMENT) when that fails."""
    result = process.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", disk.image, folder / qemu.OVERLAY]
    )
    if result.returncode != 0:
        raise ToolError(f"qemu-img failed: {process.last_line(result.output)}", "check the free disk space")


def find(arch: Arch, paths: Paths, style: Style = PLAIN) -> Disk | None:
    """Return the cached base disk for the present recipe, of the first release that has one, or None."""
    disks = (_disk(arch, release, paths, style) for release in RELEASES)
    return next((disk for disk in disks if disk.image.exists()), None)


def _disk(arch: Arch, release: str, paths: Paths, style: Style) -> Disk:
    """Where the disk is, or will be."""
    key = cache_key(arch, release, style)
    return Disk(arch.name, release, key, paths.rootfs / f"{style.of(arch)}-{key[:16]}" / "disk.img")


def needs(arch: Arch, paths: Paths, style: Style = PLAIN) -> tuple[preflight.Need, ...]:
    """Return what build() needs on this machine: nothing where the cache has the disk."""
    return () if find(arch, paths, style) else _tools(arch, style)


def _tools(arch: Arch, style: Style) -> tuple[preflight.Need, ...]:
    own = (*style.needs, *preflight.ROOTFS, *preflight.file_system())
    return (*own, *preflight.foreign_programs(arch))


def build(arch: Arch, paths: Paths, say: Say, style: Style = PLAIN) -> Disk:
    """Return the base disk for `arch`, building it when the cache has none.

    Raises ToolError (ENVIRONMENT): missing tools, no network, foreign programs do not run, disk full.
    """
    disk = _cached_or_built(arch, paths, say, style)
    if disk.release != RELEASES[0]:
        say(
            f"root file system for {style.of(arch)}: Debian {disk.release}, as {RELEASES[0]} could not be had"
            f"; to try again, remove {disk.image.parent}"
        )
    return disk


def _cached_or_built(arch: Arch, paths: Paths, say: Say, style: Style) -> Disk:
    cached = find(arch, paths, style)
    if cached:
        return cached
    preflight.require(_tools(arch, style))
    style.check()
    ensure_foreign_programs_run(arch)
    scratch.need_space(paths.cache, 5, "building a root file system")
    with lock.held(
        paths.locks / f"rootfs-{style.of(arch)}.lock", say, f"the {style.of(arch)} root file system"
    ):
        cached = find(arch, paths, style)
        if cached:
            return cached
        for release in RELEASES[:-1]:
            try:
                return _build(release, arch, paths, say, style)
            except UnsettledMirrorError as error:
                say(f"{error.message}; taking another release")
        return _build(RELEASES[-1], arch, paths, say, style)


def _build(release: str, arch: Arch, paths: Paths, say: Say, style: Style) -> Disk:
    disk = _disk(arch, release, paths, style)
    with scratch.folder(paths.scratch, "rootfs") as work:
        (work / "tmp").mkdir()
        (work / OVERLAY_TAR).write_bytes(overlay_tar(style.files(), style.links()))
        style.prepare(arch, work, paths, say)
        say(f"root file system for {style.of(arch)}: installing Debian {release}")
        root_tar = _bootstrap(arch, release, style, work, say)
        finished = work / "finished"
        finished.mkdir()
        say(f"root file system for {style.of(arch)}: writing the disk image")
        record = {"arch": arch.name, "suite": release, "key": disk.key}
        record |= style.pack(root_tar, finished, work)
        (finished / RECORD).write_text(json.dumps(record, indent=2) + "\n")
        scratch.publish(finished, disk.image.parent)
    return disk


def _bootstrap(arch: Arch, release: str, style: Style, work: Path, say: Say) -> Path:
    """Install the packages and the overlay into a tar file below `work`."""
    root_tar = work / "root.tar"
    log = work / "mmdebstrap.log"
    slow = once_every(15, say)
    result = process.run(
        [
            "mmdebstrap",
            "--variant=minbase",
            *archive_options(arch),
            f"--include={','.join(packages(arch, style))}",
            # A disk that is half made is thrown away: its files need not be on the machine's disk one by one.
            "--dpkgopt=force-unsafe-io",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            f"--customize-hook=tar-in {work / OVERLAY_TAR} /",
            '--customize-hook=rm -f "$1"/etc/ssh/ssh_host_*',
            '--customize-hook=: > "$1"/etc/machine-id',
            *(f"--customize-hook={hook}" for hook in style.hooks(arch)),
            release,
            root_tar,
            "-",
        ],
        log=log,
        env={**os.environ, "TMPDIR": str(work / "tmp"), WORK: str(work)},
        stdin=sources(release).encode(),
        tick=lambda: slow(lambda: f"root file system for {style.of(arch)}: {process.last_line(_tail(log))}"),
    )
    if result.returncode != 0:
        raise _bootstrap_failure(arch, release, _tail(log))
    return root_tar


def _bootstrap_failure(arch: Arch, release: str, text: str) -> ToolError:
    """Tell a full disk and an unsettled mirror from the rest, and name mmdebstrap's first error."""
    what = f"mmdebstrap could not install Debian {release} for {arch.debian}"
    if "No space left on device" in text:
        return ToolError(f"{what}: the disk is full", "free some space or move the cache with XDG_CACHE_HOME")
    errors = [line for line in text.splitlines() if line.startswith("E:")]
    why = errors[0] if errors else process.last_line(text)
    if UNSETTLED.search(text):
        return UnsettledMirrorError(f"{what}: {why}", "wait until the mirror has settled, then try again")
    return ToolError(f"{what}: {why}", "check the network, then try again", ExitCode.ENVIRONMENT)


def _tail(log: Path, size: int = 65536) -> str:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - size))
        return stream.read().decode(errors="replace")


def _pack(root_tar: Path, finished: Path, work: Path) -> None:
    """Turn the tar file into an ext4 image and a /boot. Without root, fakeroot keeps the owners straight."""
    tree = work / "tree"
    tree.mkdir()
    state = work / "fakeroot"
    root = os.geteuid() == 0
    first: list[str | Path] = [] if root else ["fakeroot", "-s", state, "--"]
    then: list[str | Path] = [] if root else ["fakeroot", "-i", state, "--"]
    must([*first, "tar", "-x", "--numeric-owner", "--exclude=./dev/*", "-f", root_tar, "-C", tree])
    (finished / "boot").mkdir()
    (tree / "boot/grub").rename(finished / "boot/grub")
    mke2fs = preflight.which("mke2fs") or "mke2fs"
    options = ["-q", "-t", "ext4", "-L", "lpar-lab", "-U", UUID, "-E", "root_owner=0:0", "-m", "0"]
    must([*then, mke2fs, *options, "-d", tree, finished / "disk.img", SIZE])


def must(command: Iterable[str | Path]) -> str:
    """Run a tool and return what it printed.

    Raises ToolError (ENVIRONMENT) with its last line when it fails.
    """
    words = list(command)
    result = process.run(words)
    if result.returncode != 0:
        raise ToolError(
            f"{words[0]} failed: {process.last_line(result.output)}",
            "check the free disk space, then try again",
            ExitCode.ENVIRONMENT,
        )
    return result.output
