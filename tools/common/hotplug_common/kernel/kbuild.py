"""Calling kbuild: one source tree, one object folder, and nothing of what the caller's environment says."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hotplug_common import process
from hotplug_common.arch import Arch
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError

STATS_LOG = "ccache.log"
FIXED_ENVIRONMENT = {
    # The same inputs give the same image, wherever and whenever they are built.
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "lpar-lab",
    "KBUILD_BUILD_HOST": "lpar-lab",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}


class Make:
    """kbuild for one source tree and object folder, and what a caller's environment may not say to it."""

    def __init__(
        self,
        arch: Arch,
        source: Path,
        objects: Path,
        paths: Paths,
        jobs: int,
        *,
        title: str = "",
        local_version: str = "",
    ) -> None:
        self.arch = arch
        self.source = source
        self.objects = objects
        self.jobs = jobs
        self.ccache = paths.ccache
        self.title = title or f"kernel for {arch.name}"
        self.local_version = local_version
        self.objects.mkdir(parents=True, exist_ok=True)
        self.log = self.objects / "build.log"
        self.log.write_bytes(b"")

    @property
    def config(self) -> Path:
        """The final configuration."""
        return self.objects / ".config"

    def make(
        self, goal: str, *settings: str, tick: Callable[[], None] | None = None, stdin: bytes | None = None
    ) -> None:
        """Make one goal of kbuild. Raises ToolError (INPUT) with the compiler's first error."""
        command: list[str | Path] = [
            "make",
            "-C",
            self.source,
            f"O={self.objects}",
            f"ARCH={self.arch.kbuild}",
            f"CROSS_COMPILE={self.arch.cross_prefix}",
            f"CC=ccache {self.arch.cross_prefix}gcc",
            "HOSTCC=ccache gcc",
            f"LOCALVERSION={self.local_version}",
            *settings,
            f"-j{self.jobs}",
            goal,
        ]
        self.run(command, f"make {goal}", tick, stdin)

    def run(
        self,
        command: Sequence[str | Path],
        doing: str,
        tick: Callable[[], None] | None = None,
        stdin: bytes | None = None,
    ) -> None:
        """Run a tool as part of the build; its output goes to the log."""
        result = process.run(command, env=self._environment(), log=self.log, tick=tick, stdin=stdin)
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
            "CCACHE_STATSLOG": str(self.objects / STATS_LOG),
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
        return ToolError(f"{self.title}: {doing} failed: {why}", f"see {self.log}", ExitCode.INPUT)
