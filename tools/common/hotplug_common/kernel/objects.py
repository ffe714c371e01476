"""What a configuration compiles, counted from the source's own Makefiles, and how long that takes.

Nothing is compiled: GNU make evaluates each folder's Makefile with the configuration.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

from hotplug_common import process

RATES_FILE = "build-rates.json"
LEAST_COMPILED = 200
"""Fewer compilations than these say nothing about a rate."""
BYTES_PER_OBJECT = 270_000
"""Of an object folder without debug information: 0.86 GB for 3,317 objects of Debian's 6.12."""
SAME_SPACE_BYTES = 1_000_000_000
"""For vmlinux in its stages, the image, and packages."""


@dataclass(frozen=True)
class Objects:
    """The object files that go into the image, and those of each module, by path below the source."""

    builtin: frozenset[str]
    modules: dict[str, frozenset[str]]

    @property
    def modular(self) -> frozenset[str]:
        """The object files of all modules."""
        return frozenset().union(*self.modules.values())

    @property
    def disk_bytes(self) -> int:
        """What the object folder will take, roughly."""
        return SAME_SPACE_BYTES + BYTES_PER_OBJECT * (len(self.builtin) + len(self.modular))

    @property
    def sources(self) -> frozenset[str]:
        """The C files that are compiled."""
        return frozenset(f"{name.removesuffix('.o')}.c" for name in self.builtin | self.modular)


@dataclass(frozen=True)
class Spent:
    """What making a goal took: CPU seconds, and the files that were compiled in them."""

    seconds: float
    compiled: int


@dataclass(frozen=True)
class Rates:
    """CPU seconds that a compilation takes, linking included, and where that was measured."""

    builtin: float = 0.8
    module: float = 1.04
    where: str = "a build of Debian's 6.12 for ppc64le on 2 cores, without debug information"

    @classmethod
    def load(cls, cache: Path) -> Rates:
        """Return the rates of this machine's last large build; those above when there was none."""
        try:
            return cls(**json.loads((cache / RATES_FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return cls()

    def updated(self, image: Spent, modules: Spent, release: str) -> Rates:
        """Return the rates after a build of that release, where it compiled enough to tell."""
        if min(image.compiled, modules.compiled) < LEAST_COMPILED:
            return self
        return Rates(
            round(image.seconds / image.compiled, 2), round(modules.seconds / modules.compiled, 2), release
        )

    def save(self, cache: Path) -> None:
        """Keep them for the next estimate."""
        (cache / RATES_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n")

    def hours(self, objects: Objects, cpus: int) -> float:
        """Return how long a build from clean takes with that many idle CPUs."""
        spent = self.builtin * len(objects.builtin) + self.module * len(objects.modular)
        return spent / cpus / 3600


def estimate(objects: Objects, rates: Rates, jobs: int) -> str:
    """Say how much there is to compile, how long that takes at most, and what space."""
    cpus = min(jobs, os.cpu_count() or 1)
    modular = f"{len(objects.modular)} in {len(objects.modules)} modules"
    time = f"about {_time(rates.hours(objects, cpus))} from clean on {cpus} idle CPUs"
    space = f"{objects.disk_bytes / 1e9:.1f} GB"
    image = f"{len(objects.builtin)} objects in the image"
    return f"{image}, {modular}: {time}, and {space} (rates of {rates.where})"


def _time(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 2 else f"{max(1, round(hours * 60))} min"


def count(tree: Path, config: Path, kbuild_arch: str) -> Objects:
    """Evaluate the Makefiles of a source, from its top Kbuild down."""
    # make runs in the source, and would look for a relative path there.
    tree, config = tree.resolve(), config.resolve()
    builtin: set[str] = set()
    modules: dict[str, frozenset[str]] = {}
    seen: set[str] = set()
    top = {".": True, "lib": True, f"arch/{kbuild_arch}": True, f"arch/{kbuild_arch}/lib": True}
    package = files("hotplug_common.kernel").joinpath("data/objects.mk")
    with as_file(package) as recipe, ThreadPoolExecutor(os.cpu_count()) as pool:
        level = top
        while level:
            seen |= level.keys()

            def ask(folder: str) -> str:
                return _ask(recipe, tree, config, kbuild_arch, folder)

            following: dict[str, bool] = {}
            for (folder, in_image), text in zip(level.items(), pool.map(ask, level), strict=True):
                for kind, names in _read(text):
                    paths = [posixpath.normpath(posixpath.join(folder, name.split("=")[0])) for name in names]
                    if kind == "Y" and in_image:
                        builtin |= set(paths)
                    if kind == "M":
                        modules |= dict(zip(paths, (_parts(folder, name) for name in names), strict=True))
                    if kind in "DE":
                        for path in paths:
                            following[path] = following.get(path, False) or (kind == "D" and in_image)
            level = {
                path: kept for path, kept in following.items() if path not in seen and (tree / path).is_dir()
            }
    return Objects(frozenset(builtin), modules)


def _parts(folder: str, named: str) -> frozenset[str]:
    parts = named.partition("=")[2].split(",")
    return frozenset(posixpath.normpath(posixpath.join(folder, part)) for part in parts if part)


def _read(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        kind, _, names = line.partition(" ")
        if kind in {"Y", "M", "D", "E"}:
            yield kind, names.split()


def _ask(recipe: Path, tree: Path, config: Path, kbuild_arch: str, folder: str) -> str:
    settings = {
        "TREE": tree,
        "OBJECTS": config.parent,
        "FOLDER": folder,
        "CONFIG_FILE": config,
        "SRCARCH": kbuild_arch,
        "ARCH": kbuild_arch,
        "BITS": "64",
        "CC": "false",
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    env = {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    command: list[str | Path] = ["make", "-rRs", "-f", recipe, *words, "__count"]
    return process.run(command, cwd=tree, env=env, merge_errors=False).output
