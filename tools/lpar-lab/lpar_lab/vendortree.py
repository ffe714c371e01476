"""Whether the series applies to a vendor's source, patch by patch and hunk by hunk.

Only the files that the patches touch are copied, and patched there: the vendor's source stays as it is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process, scratch
from hotplug_common.kernel import origin
from hotplug_common.kernel.series import Patch
from hotplug_common.needs import Need
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError

FUZZ = 2
"""What patch(1) itself allows: lines of context that may differ at each end of a hunk."""
OLD_NAME = re.compile(rb"^--- a/(\S+)$", re.MULTILINE)
NEW_NAME = re.compile(rb"^\+\+\+ b/(\S+)$", re.MULTILINE)
PATCHING = re.compile(r"(?:patching|checking) file '?([^' ]+)'?")
HUNK = re.compile(
    r"Hunk #(\d+) (succeeded|FAILED) at (\d+)(?: \(different line endings\))?(?: with fuzz (\d+))?"
)
SERIES_CONF = "series.conf"
"""A folder that has it holds a vanilla source and thousands of patches, as those of SUSE do."""


class Fit(Enum):
    """How well a patch applies."""

    CLEAN = "clean"
    FUZZ = "fuzz"
    FAILS = "fails"


@dataclass(frozen=True)
class Hunk:
    """A hunk that needed fuzz or failed: the line is that in the patched file, or where it was looked for."""

    file: str
    number: int
    line: int
    fuzz: int
    failed: bool
    after: str = ""
    """The earlier patch that failed in the same file, of which this may be the consequence."""

    def __str__(self) -> str:
        how = "failed" if self.failed else f"fuzz {self.fuzz}"
        return f"{self.file}:{self.line} hunk {self.number} {how}" + (
            f" (after {self.after})" if self.after else ""
        )


@dataclass(frozen=True)
class Applied:
    """One patch, the hunks that did not apply as they are, and files that the source lacks."""

    patch: str
    hunks: tuple[Hunk, ...]
    missing: tuple[str, ...]

    @property
    def fit(self) -> Fit:
        """Judge the patch by its worst hunk."""
        if self.missing or any(hunk.failed for hunk in self.hunks):
            return Fit.FAILS
        return Fit.FUZZ if self.hunks else Fit.CLEAN

    @property
    def details(self) -> list[str]:
        """Return each finding as a line."""
        return [f"{name}: no such file" for name in self.missing] + [str(hunk) for hunk in self.hunks]


@contextmanager
def opened(source: Path, paths: Paths, say: Say) -> Iterator[Path]:
    """Give the folder of a kernel source: itself, what a .dsc names, or the tarball of a source rpm.

    Raises ToolError: USAGE for what is none of them, INPUT for what cannot be unpacked.
    """
    if (source / "Makefile").is_file():
        yield source
        return
    tarballs = sorted(source.glob("linux-*.tar.*")) if source.is_dir() else []
    if source.suffix != ".dsc" and len(tarballs) != 1:
        raise ToolError(
            f"{source} is no kernel source: neither a folder with a Makefile, nor a .dsc,"
            " nor a folder with one linux-*.tar.*",
            "unpack the source package and name what is in it",
            ExitCode.USAGE,
        )
    if source.is_dir() and (source / SERIES_CONF).exists():
        raise ToolError(
            f"{source} holds a source without its vendor's patches ({SERIES_CONF} lists them)",
            "apply them by the vendor's own script (SUSE: sequence-patch.sh), and name the resulting folder",
            ExitCode.USAGE,
        )
    scratch.need_space(paths.cache, 2, "unpacking a kernel source")
    with scratch.folder(paths.scratch, "vendor") as folder:
        say(f"unpacking {source}")
        tree = folder / "tree"
        if tarballs:
            tree.mkdir()
            origin.unpack(["tar", "-x", "--strip-components=1", "-f", tarballs[0], "-C", tree], source)
        else:
            preflight.require((Need("dpkg-source", "dpkg-dev"),))
            origin.unpack(["dpkg-source", "--no-copy", "--extract", source, tree], source)
        yield tree


def touched(patches: Sequence[Patch]) -> list[str]:
    """Return the names of all files that the patches change or make."""
    names = [
        name for patch in patches for form in (OLD_NAME, NEW_NAME) for name in form.findall(patch.content)
    ]
    return sorted({name.decode() for name in names})


def apply(patches: Sequence[Patch], tree: Path, work: Path) -> list[Applied]:
    """Apply all patches to copies in WORK of the files that they touch; what fails does not end it."""
    preflight.require((Need("patch", "patch"),))
    for name in touched(patches):
        if (tree / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / name, work / name)
    failed: dict[str, str] = {}
    found = []
    for patch in patches:
        one = _apply_one(patch, work, failed)
        for hunk in one.hunks:
            if hunk.failed:
                failed.setdefault(hunk.file, patch.name)
        found.append(one)
    return found


def _apply_one(patch: Patch, work: Path, failed: dict[str, str]) -> Applied:
    old = [name.decode() for name in OLD_NAME.findall(patch.content)]
    missing = tuple(name for name in old if not (work / name).is_file())
    command: list[str | Path] = [
        *("patch", "-p1", "--force", f"--fuzz={FUZZ}", "--no-backup-if-mismatch", "--reject-file=-"),
        *("--directory", work, "--input", patch.path.absolute()),
    ]
    result = process.run(command, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    return Applied(patch.name, tuple(parse(result.output, failed)), missing)


def parse(output: str, failed: dict[str, str]) -> Iterator[Hunk]:
    """Yield the hunks that patch(1) says it did not apply as they are."""
    file = ""
    for line in output.splitlines():
        if found := PATCHING.match(line):
            file = found[1]
        elif found := HUNK.match(line):
            number, how, where, fuzz = found.groups()
            if how == "FAILED" or fuzz:
                yield Hunk(
                    file, int(number), int(where), int(fuzz or 0), how == "FAILED", failed.get(file, "")
                )
