"""Where the lab keeps things: caches, guest state, and the project's own folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.errors import ExitCode, ToolError

PROJECT_MARK = Path("kernel-patches/configs")


@dataclass(frozen=True)
class Paths:
    """The lab's three roots and the folders below them."""

    cache: Path
    state: Path
    project: Path

    @classmethod
    def from_environment(cls, env: Mapping[str, str] = os.environ) -> Paths:
        """Read XDG_CACHE_HOME, XDG_STATE_HOME and LPAR_LAB_PROJECT, with their usual defaults."""
        home = Path(env.get("HOME") or Path.home())
        cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
        state = Path(env.get("XDG_STATE_HOME") or home / ".local/state")
        return cls(cache / "lpar-lab", state / "lpar-lab", find_project(env))

    @property
    def apt(self) -> Path:
        """Private apt state, apart from the machine's own."""
        return self.cache / "apt"

    @property
    def sources(self) -> Path:
        """One folder per kernel source version, each with a git tree."""
        return self.cache / "sources"

    @property
    def objects(self) -> Path:
        """Object directories, one per source version, architecture and fragment set."""
        return self.cache / "objects"

    @property
    def kernels(self) -> Path:
        """Finished kernel artefacts by cache key."""
        return self.cache / "kernels"

    @property
    def rootfs(self) -> Path:
        """Finished base disks by cache key."""
        return self.cache / "rootfs"

    @property
    def ccache(self) -> Path:
        """Compiler cache."""
        return self.cache / "ccache"

    @property
    def scratch(self) -> Path:
        """Work in progress; swept of what a killed run left there."""
        return self.cache / "tmp"

    @property
    def locks(self) -> Path:
        """Lock files."""
        return self.cache / "locks"

    @property
    def guests(self) -> Path:
        """One folder per guest."""
        return self.state / "guests"

    @property
    def failed_consoles(self) -> Path:
        """Console logs of guests that did not come up."""
        return self.state / "failed"

    @property
    def patches(self) -> Path:
        """The kernel series and config fragments."""
        return self.project / "kernel-patches"

    @property
    def inventory(self) -> Path:
        """The Ansible inventory of running guests."""
        return self.project / "inventory" / "lab.yml"


def find_project(env: Mapping[str, str], start: Path | None = None) -> Path:
    """Find the checkout: LPAR_LAB_PROJECT, else upwards from this file, else from the working directory.

    Raises ToolError (USAGE) when LPAR_LAB_PROJECT does not name a checkout or none is found.
    """
    named = env.get("LPAR_LAB_PROJECT")
    if named:
        project = Path(named).absolute()
        if (project / PROJECT_MARK).is_dir():
            return project
        raise ToolError(
            f"LPAR_LAB_PROJECT={named} has no {PROJECT_MARK}", "point it at the checkout", ExitCode.USAGE
        )
    for origin in (start or Path(__file__).resolve(), Path.cwd()):
        for folder in (origin, *origin.parents):
            if (folder / PROJECT_MARK).is_dir():
                return folder
    raise ToolError(
        f"no checkout found (a folder with {PROJECT_MARK})",
        "run inside it, or set LPAR_LAB_PROJECT",
        ExitCode.USAGE,
    )
