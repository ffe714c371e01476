"""Build one variant of a kernel into the artefact cache."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hotplug_common import lock, process, scratch
from hotplug_common import needs as preflight
from hotplug_common.arch import Arch
from hotplug_common.kernel import artifact, config, packages, series, tree
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.kernel.config import Fragment
from hotplug_common.kernel.kbuild import STATS_LOG, Make
from hotplug_common.kernel.objects import Objects, Rates, Spent
from hotplug_common.kernel.series import Patch
from hotplug_common.kernel.source import Source
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, once_every
from hotplug_host.errors import ExitCode, ToolError

PROGRESS_S = 15.0
HOST_MARK = "-smt"
MODULES = "modules.tar"
ALIASES = "modules.alias"
CHANGES = "config-changes.txt"


@dataclass(frozen=True)
class HostConfig:
    """The whole configuration of a kernel for a host, made from the host's own; modules come with it."""

    where: str
    """What the host's configuration was read from."""
    text: str
    changes: str
    """How it differs from the host's, and why: a line for each symbol."""
    folder: str
    """Names the object folder: builds of variants that were asked for with the same words share it."""
    objects: Objects
    lacking: tuple[str, ...]
    """Modules that the host uses and this kernel has not, in words."""


@dataclass(frozen=True)
class Plan:
    """One build, fully decided: what goes in, and the key that follows from it."""

    arch: Arch
    source: Source
    variant: str
    patches: list[Patch]
    fragments: list[Fragment]
    key: str
    host: HostConfig | None = None

    @property
    def local_version(self) -> str:
        """What follows the kernel version in the release; no distribution has what a host's kernel has."""
        return (HOST_MARK if self.host else "") + artifact.local_version(self.variant, self.key)

    @property
    def release(self) -> str:
        """What `uname -r` will say."""
        return self.source.kernel_version + self.local_version

    @property
    def title(self) -> str:
        """Name of the build in messages."""
        return f"{self.variant} kernel for {self.arch.name}"

    @property
    def folder(self) -> str:
        """Name of the object folder: the variants of one source and configuration share it."""
        if self.host:
            return f"{self.arch.name}-host-{self.host.folder}"
        fragments = hashlib.sha256("\0".join(f.content for f in self.fragments).encode()).hexdigest()[:8]
        return f"{self.arch.name}-{fragments}"


def plan(
    arch: Arch,
    source: Source,
    variant: str,
    fragments: Sequence[str],
    paths: Paths,
    *,
    patches: list[Patch] | None = None,
) -> Plan:
    """Read config fragments and decide the cache key; PATCHES take the place of the variant's series, if any.

    Raises ToolError: USAGE for unknown variant or fragment, INPUT for a broken series, ENVIRONMENT
    when the compiler is missing.
    """
    preflight.require(preflight.kernel_build(arch))
    if patches is None:
        patches = series.load(paths.patches, source.line, variant)
    read = config.load(paths.patches, arch, source.line, fragments)
    key = artifact.cache_key(
        source_sha256=source.ref.sha256,
        patches=patches,
        fragments=read,
        arch=arch.name,
        compiler=compiler_version(arch),
        variant=variant,
    )
    return Plan(arch, source, variant, patches, read, key)


def apply(source: Source, patches: list[Patch], say: Say) -> None:
    """Apply patches to the source and build nothing. Raises ToolError (INPUT) when one does not apply."""
    with lock.held(source.lock, say, f"the source tree of line {source.line}"):
        tree.prepare(source.tree, patches, f"{source.line} ({source.kernel_version})")


def compiler_version(arch: Arch) -> str:
    """Identify compiler and linker by the first line each says of itself."""
    outputs = (process.run([f"{arch.cross_prefix}{tool}", "--version"]).output for tool in ("gcc", "ld"))
    return "; ".join(output.splitlines()[0] for output in outputs if output)


def build(
    job: Plan, paths: Paths, say: Say, jobs: int | None = None, formats: Sequence[str] = ()
) -> Artifact:
    """Return the artefact of `job`, building what the cache lacks of it and of its packages.

    Raises ToolError: INPUT when a patch does not apply, a symbol is lost or the kernel does not
    compile, ENVIRONMENT when the disk is full.
    """
    target = paths.kernels / job.key
    preflight.require(packages.needs(formats))
    if kept := _kept(target, formats):
        say(f"{job.title}: {job.release} is in the cache")
        return kept
    gigabytes = job.host.objects.disk_bytes / 1e9 if job.host else 3
    scratch.need_space(paths.cache, round(gigabytes, 1), "building a kernel")
    with lock.held(job.source.lock, say, f"the source tree of line {job.source.line}"):
        if kept := _kept(target, formats):
            return kept
        say(f"{job.title}: preparing {job.release}")
        tree.prepare(job.source.tree, job.patches, f"{job.source.line} ({job.source.kernel_version})")
        with scratch.folder(paths.scratch, "kernel") as work:
            kbuild = Kbuild(job, paths, jobs or os.cpu_count() or 1)
            kbuild.configure()
            kbuild.compile(say)
            built = _kept(target, ()) or _publish(job, kbuild, work / "finished", target, say)
            for kind in formats:
                say(f"{job.title}: packing as {kind}")
                built = _add_packages(built, kbuild, kind, work)
            return built


def _kept(target: Path, formats: Sequence[str]) -> Artifact | None:
    """Return what the cache has, if it has packages of all these formats."""
    if not (target / artifact.FILE).exists():
        return None
    built = artifact.load(target)
    return built if set(formats) <= {package.format for package in built.packages} else None


class Kbuild(Make):
    """kbuild for one plan: an object directory shared by the variants of one source and fragment set."""

    def __init__(self, job: Plan, paths: Paths, jobs: int) -> None:
        objects = paths.objects / job.source.folder.name / job.folder
        super().__init__(
            *(job.arch, job.source.tree, objects, paths, jobs),
            title=job.title,
            local_version=job.local_version,
        )
        self.job = job
        self.cache = paths.cache

    def configure(self) -> None:
        """Make .config from the fragments, everything they do not mention being off.

        The fragments go into allnoconfig rather than over its result: defaults that depend on what
        they choose (FRAME_WARN on 64 bits) would otherwise keep the value of another machine.
        A host's whole configuration is final as it is.
        """
        if self.job.host:
            self.config.write_text(self.job.host.text)
            self.make("olddefconfig")
            return
        merged = self.objects / "fragments.config"
        merge = self.job.source.tree / "scripts/kconfig/merge_config.sh"
        fragments = [fragment.path for fragment in self.job.fragments]
        self.run([merge, "-m", "-Q", "-O", self.objects, *fragments], "merging the fragments")
        self.config.rename(merged)
        self.make("allnoconfig", f"KCONFIG_ALLCONFIG={merged}")
        self.make("olddefconfig")
        config.require_survival(self.job.fragments, self.config.read_text(), self.job.source.line)

    def compile(self, say: Say) -> None:
        """Compile and link the image; say now and then how far it is."""
        tick = self._reporting(say, lambda: f"{self._done('CC', 'AS')} files compiled")
        image = self._timed(self.arch.make_target, tick)
        if self.job.host:
            Rates.load(self.cache).updated(image, self._timed("modules", tick), self.job.release).save(
                self.cache
            )

    def _timed(self, goal: str, tick: Callable[[], None]) -> Spent:
        """Make a goal; return the CPU seconds, and how many files the compiler cache did not have."""
        stats = self.objects / STATS_LOG
        stats.write_text("")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.make(goal, tick=tick)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Spent(seconds, stats.read_text().split().count("cache_miss"))

    def strip(self, target: Path) -> None:
        """Copy the image to `target`, without the symbols that neither QEMU nor kexec reads."""
        image = self.objects / self.job.arch.image
        if self.job.arch.image == "vmlinux":
            self.run([f"{self.job.arch.cross_prefix}strip", "-s", "-o", target, image], "stripping vmlinux")
        else:
            shutil.copyfile(image, target)

    def _reporting(self, say: Say, done: Callable[[], str]) -> Callable[[], None]:
        """Return what to call while kbuild makes a goal: it reports now and then what is done."""
        slow = once_every(PROGRESS_S, say)
        return lambda: slow(lambda: f"{self.title}: {done()}")

    def _done(self, *steps: str) -> int:
        """Return how many files kbuild has named in such steps, as CC or INSTALL."""
        with self.log.open(errors="replace") as lines:
            return sum(line.startswith(tuple(f"  {step} " for step in steps)) for line in lines)

    def modules(self, fresh: Path, say: Say) -> None:
        """Put the stripped modules into FRESH as a tarball, and beside it their modules.alias.

        A configuration without modules has no aliases, and the tarball lists what the image has built in.
        """

        def done() -> str:
            packed = self._done("XZ", "ZSTD", "GZIP")
            return f"{self._done('INSTALL')} modules installed, {packed} compressed"

        root = fresh / "root"
        tick = self._reporting(say, done)
        self.make("modules_install", f"INSTALL_MOD_PATH={root}", "INSTALL_MOD_STRIP=1", tick=tick)
        folder = root / "lib/modules" / self.job.release
        for link in ("build", "source"):
            (folder / link).unlink(missing_ok=True)
        (folder / ALIASES).touch()
        shutil.copyfile(folder / ALIASES, fresh / ALIASES)
        with tarfile.open(fresh / MODULES, "w", format=tarfile.GNU_FORMAT) as archive:
            archive.add(folder, f"lib/modules/{self.job.release}", filter=packages.owned_by_root)
        shutil.rmtree(root)


def _publish(job: Plan, kbuild: Kbuild, fresh: Path, target: Path, say: Say) -> Artifact:
    """Collect image, configuration, log and artifact.json, and move them into the cache in one step."""
    fresh.mkdir()
    image = fresh / job.arch.artifact_image
    kbuild.strip(image)
    if job.host:
        kbuild.modules(fresh, say)
        (fresh / CHANGES).write_text(job.host.changes)
    shutil.copyfile(kbuild.config, fresh / "config")
    shutil.copyfile(kbuild.log, fresh / "build.log")
    _check_release(job, kbuild)
    built = Artifact(
        arch=job.arch.name,
        line=job.source.line,
        variant=job.variant,
        release=job.release,
        image=target / image.name,
        sha256=artifact.file_sha256(image),
        config=target / "config",
        source=job.source.ref,
        patches=[patch.name for patch in job.patches],
        fragments=[fragment.name for fragment in job.fragments],
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        config_from=job.host.where if job.host else "",
        modules=MODULES if job.host else "",
    )
    (fresh / artifact.FILE).write_text(built.to_json())
    scratch.publish(fresh, target)
    return built


def _add_packages(built: Artifact, kbuild: Kbuild, kind: str, work: Path) -> Artifact:
    """Make packages of a kind by kbuild, put them beside the image, and name them in artifact.json."""
    fresh = work / kind
    fresh.mkdir()
    made = packages.make(kbuild, kind, fresh)
    for package in made:
        (fresh / package.file).replace(built.file.parent / package.file)
    named = replace(built, packages=[one for one in built.packages if one.format != kind] + made)
    text = work / artifact.FILE
    text.write_text(named.to_json())
    text.replace(built.file)
    return named


def _check_release(job: Plan, kbuild: Kbuild) -> None:
    """Raise ToolError (INPUT) when kbuild named the kernel otherwise than we will ask for it."""
    said = (kbuild.objects / "include/config/kernel.release").read_text().strip()
    if said != job.release:
        raise ToolError(
            f"kbuild calls this kernel {said}, not {job.release}",
            "leave CONFIG_LOCALVERSION empty and CONFIG_LOCALVERSION_AUTO off in the fragments",
            ExitCode.INPUT,
        )
