"""Build one variant of a kernel into the artefact cache."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hotplug_common import lock, process, scratch
from hotplug_common import needs as preflight
from hotplug_common.arch import Arch
from hotplug_common.kernel import artifact, config, series, tree
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.kernel.config import Fragment
from hotplug_common.kernel.series import Patch
from hotplug_common.kernel.source import Source
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, once_every
from hotplug_host.errors import ExitCode, ToolError

PROGRESS_S = 15.0
FIXED_ENVIRONMENT = {
    # The same inputs give the same image, wherever and whenever they are built.
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "lpar-lab",
    "KBUILD_BUILD_HOST": "lpar-lab",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}


@dataclass(frozen=True)
class Plan:
    """One build, fully decided: what goes in, and the key that follows from it."""

    arch: Arch
    source: Source
    variant: str
    patches: list[Patch]
    fragments: list[Fragment]
    key: str

    @property
    def release(self) -> str:
        """What `uname -r` will say."""
        return self.source.kernel_version + artifact.local_version(self.variant, self.key)

    @property
    def title(self) -> str:
        """Name of the build in messages."""
        return f"{self.variant} kernel for {self.arch.name}"


def plan(
    arch: Arch,
    source: Source,
    variant: str,
    fragments: Sequence[str],
    paths: Paths,
    *,
    upto: int | None = None,
) -> Plan:
    """Read series and config fragments and decide the cache key; only the first `upto` patches count, if any.

    Raises ToolError: USAGE for unknown variant or fragment, INPUT for a broken series, ENVIRONMENT
    when the compiler is missing.
    """
    preflight.require(preflight.kernel_build(arch))
    patches = series.first(series.load(paths.patches, source.line, variant), upto)
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


def apply(source: Source, variant: str, paths: Paths, say: Say, *, upto: int | None = None) -> list[Patch]:
    """Apply the series to the source and build nothing; return the patches, of which `upto` are the first.

    Raises ToolError: USAGE for an unknown variant, INPUT when a patch does not apply.
    """
    patches = series.first(series.load(paths.patches, source.line, variant), upto)
    with lock.held(source.lock, say, f"the source tree of line {source.line}"):
        tree.prepare(source.tree, patches, f"{source.line} ({source.kernel_version})")
    return patches


def compiler_version(arch: Arch) -> str:
    """Identify compiler and linker by the first line each says of itself."""
    outputs = (process.run([f"{arch.cross_prefix}{tool}", "--version"]).output for tool in ("gcc", "ld"))
    return "; ".join(output.splitlines()[0] for output in outputs if output)


def build(job: Plan, paths: Paths, say: Say, jobs: int | None = None) -> Artifact:
    """Return the artefact of `job`, building it when the cache has none.

    Raises ToolError: INPUT when a patch does not apply, a symbol is lost or the kernel does not
    compile, ENVIRONMENT when the disk is full.
    """
    target = paths.kernels / job.key
    if (target / artifact.FILE).exists():
        say(f"{job.title}: {job.release} is in the cache")
        return artifact.load(target)
    scratch.need_space(paths.cache, 3, "building a kernel")
    with lock.held(job.source.lock, say, f"the source tree of line {job.source.line}"):
        if (target / artifact.FILE).exists():
            return artifact.load(target)
        say(f"{job.title}: preparing {job.release}")
        tree.prepare(job.source.tree, job.patches, f"{job.source.line} ({job.source.kernel_version})")
        with scratch.folder(paths.scratch, "kernel") as work:
            kbuild = Kbuild(job, paths, jobs or os.cpu_count() or 1)
            kbuild.configure()
            kbuild.compile(say)
            return _publish(job, kbuild, work / "finished", target)


class Kbuild:
    """kbuild for one plan: an object directory shared by the variants of one source and fragment set."""

    def __init__(self, job: Plan, paths: Paths, jobs: int) -> None:
        self.job = job
        self.jobs = jobs
        self.ccache = paths.ccache
        fragments = hashlib.sha256("\0".join(f.content for f in job.fragments).encode()).hexdigest()[:8]
        self.objects = paths.objects / job.source.folder.name / f"{job.arch.name}-{fragments}"
        self.objects.mkdir(parents=True, exist_ok=True)
        self.log = self.objects / "build.log"
        self.log.write_bytes(b"")

    @property
    def config(self) -> Path:
        """The final configuration."""
        return self.objects / ".config"

    def configure(self) -> None:
        """Make .config from the fragments, everything they do not mention being off.

        The fragments go into allnoconfig rather than over its result: defaults that depend on what
        they choose (FRAME_WARN on 64 bits) would otherwise keep the value of a machine nobody asked for.
        """
        merged = self.objects / "fragments.config"
        merge = self.job.source.tree / "scripts/kconfig/merge_config.sh"
        fragments = [fragment.path for fragment in self.job.fragments]
        self._run([merge, "-m", "-Q", "-O", self.objects, *fragments], "merging the fragments")
        self.config.rename(merged)
        self._make("allnoconfig", f"KCONFIG_ALLCONFIG={merged}")
        self._make("olddefconfig")
        config.require_survival(self.job.fragments, self.config.read_text(), self.job.source.line)

    def compile(self, say: Say) -> None:
        """Compile and link the image; say now and then how far it is."""
        slow = once_every(PROGRESS_S, say)
        goal = self.job.arch.make_target
        self._make(goal, tick=lambda: slow(f"{self.job.title}: {self._objects_built()}"))

    def strip(self, target: Path) -> None:
        """Copy the image to `target`, without the symbols that neither QEMU nor kexec reads."""
        image = self.objects / self.job.arch.image
        if self.job.arch.image == "vmlinux":
            self._run([f"{self.job.arch.cross_prefix}strip", "-s", "-o", target, image], "stripping vmlinux")
        else:
            shutil.copyfile(image, target)

    def _objects_built(self) -> str:
        with self.log.open(errors="replace") as lines:
            done = sum(1 for line in lines if line.startswith(("  CC ", "  AS ")))
        return f"{done} files compiled"

    def _make(self, goal: str, *settings: str, tick: Callable[[], None] | None = None) -> None:
        arch = self.job.arch
        self._run(
            [
                "make",
                "-C",
                self.job.source.tree,
                f"O={self.objects}",
                f"ARCH={arch.kbuild}",
                f"CROSS_COMPILE={arch.cross_prefix}",
                f"CC=ccache {arch.cross_prefix}gcc",
                "HOSTCC=ccache gcc",
                f"LOCALVERSION={artifact.local_version(self.job.variant, self.job.key)}",
                *settings,
                f"-j{self.jobs}",
                goal,
            ],
            f"make {goal}",
            tick,
        )

    def _run(self, command: Sequence[str | Path], doing: str, tick: Callable[[], None] | None = None) -> None:
        result = process.run(command, env=self._environment(), log=self.log, tick=tick)
        if result.returncode != 0:
            raise self._failure(doing)

    def _environment(self) -> dict[str, str]:
        settings = {
            "CCACHE_DIR": str(self.ccache),
            "CCACHE_BASEDIR": str(self.ccache.parent),
            "CCACHE_NOHASHDIR": "1",
            "CCACHE_COMPILERCHECK": "content",
            # A file that has to be compiled is not preprocessed before: kbuild lists what it includes.
            "CCACHE_DEPEND": "1",
            "CCACHE_MAXSIZE": "4G",
        }
        # A caller's make or kbuild settings are none of ours.
        drop = (
            "MAKEFLAGS",
            "MFLAGS",
            "MAKELEVEL",
            "ARCH",
            "CROSS_COMPILE",
            "KCONFIG_",
            "KBUILD_",
            "LOCALVERSION",
        )
        kept = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
        return kept | FIXED_ENVIRONMENT | settings

    def _failure(self, doing: str) -> ToolError:
        text = self.log.read_text(errors="replace")
        if "No space left on device" in text:
            return ToolError(f"{doing} failed: the disk is full", "free some space and run again")
        errors = [
            line.strip() for line in text.splitlines() if "error:" in line or line.startswith("make: ***")
        ]
        why = errors[0] if errors else process.last_line(text)
        return ToolError(f"{self.job.title}: {doing} failed: {why}", f"see {self.log}", ExitCode.INPUT)


def _publish(job: Plan, kbuild: Kbuild, fresh: Path, target: Path) -> Artifact:
    """Collect image, configuration, log and artifact.json, and move them into the cache in one step."""
    fresh.mkdir()
    image = fresh / job.arch.artifact_image
    kbuild.strip(image)
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
    )
    (fresh / artifact.FILE).write_text(built.to_json())
    scratch.publish(fresh, target)
    return built


def _check_release(job: Plan, kbuild: Kbuild) -> None:
    """Raise ToolError (INPUT) when kbuild named the kernel otherwise than we will ask for it."""
    said = (kbuild.objects / "include/config/kernel.release").read_text().strip()
    if said != job.release:
        raise ToolError(
            f"kbuild calls this kernel {said}, not {job.release}",
            "leave CONFIG_LOCALVERSION empty and CONFIG_LOCALVERSION_AUTO off in the fragments",
            ExitCode.INPUT,
        )
