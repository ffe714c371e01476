"""A series: the ordered patches of a variant, as listed in a `series` file beside them.

Those of the patched variant are in kernel-patches/<topic>/<line>, topic after topic as the line's data file
lists them. A branch of a line has folders of its own only for topics that differ, and in them the patches
that do; the rest is that of its line. Each folder of kernel-patches/experiments is one more variant, with the
same patches on every line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hotplug_common.kernel import lines
from hotplug_host.errors import ExitCode, ToolError

STOCK = "stock"
PATCHED = "patched"
VARIANTS = (STOCK, PATCHED)
"""What every kernel line has."""
EXPERIMENTS = "experiments"
LISTING = "series"


@dataclass(frozen=True)
class Patch:
    """One patch file in mail format."""

    name: str
    path: Path
    content: bytes

    @property
    def diff(self) -> bytes:
        """What changes the tree: all but the message."""
        _, start, diff = self.content.partition(b"\ndiff --git ")
        return start + diff or self.content


def parse(text: str, where: str = "series") -> list[str]:
    """Return the patch names listed in `text`: one a line, `#` starts a comment.

    Raises ToolError (INPUT) for a name listed twice or one that leaves the folder.
    """
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.split("#", 1)[0].strip()
        if not name:
            continue
        if name in names:
            raise ToolError(f"{where}:{number}: '{name}' is listed twice", "list it once", ExitCode.INPUT)
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or len(name.split()) > 1:
            raise ToolError(
                f"{where}:{number}: '{name}' is not the name of a patch beside the series file",
                "list one file name a line",
                ExitCode.INPUT,
            )
        names.append(name)
    return names


def experiments(patches: Path) -> tuple[str, ...]:
    """Return the names of the experiments, sorted: folders of kernel-patches/experiments with a series."""
    return tuple(sorted(listing.parent.name for listing in (patches / EXPERIMENTS).glob(f"*/{LISTING}")))


def variants(patches: Path) -> tuple[str, ...]:
    """Return the names of all variants that can be built."""
    return (*VARIANTS, *experiments(patches))


def require_variant(patches: Path, variant: str) -> None:
    """Raise ToolError (USAGE) for a variant that there is not; it names those that there are."""
    if variant not in variants(patches):
        raise ToolError(
            f"unknown variant '{variant}'", f"choose one of {', '.join(variants(patches))}", ExitCode.USAGE
        )


def load(patches: Path, line: str, variant: str) -> list[Patch]:
    """Read the patches of `variant` for `line`, in series order; stock has none.

    Raises ToolError: USAGE for an unknown variant, INPUT for a missing series or patch.
    """
    require_variant(patches, variant)
    if variant == STOCK:
        return []
    if variant != PATCHED:
        return _listed(patches, f"{EXPERIMENTS}/{variant}", "")
    found = lines.load(patches, line)
    folders = [(topic, topic_folder(patches, topic, line)) for topic in found.topics]
    return [patch for topic, folder in folders for patch in _listed(patches, folder, topic, found.of)]


def topic_folder(patches: Path, topic: str, line: str) -> str:
    """Return the folder that lists the patches of a topic: of a branch, its line's where none differs."""
    of = lines.load(patches, line).of
    return f"{topic}/{of}" if of and not (patches / topic / line).is_dir() else f"{topic}/{line}"


def located(patches: Path, folder: str, name: str, of: str = "") -> Path:
    """Return the file of a patch that a folder lists: of a branch's folder, its line's where none differs."""
    path = patches / folder / name
    return path if path.is_file() or not of else path.parent.with_name(of) / name


def _listed(patches: Path, folder: str, topic: str, of: str = "") -> list[Patch]:
    """Read the patches of one folder, named by their topic and file."""
    listing = patches / folder / LISTING
    try:
        names = parse(listing.read_text(), str(listing))
    except OSError as error:
        raise ToolError(
            f"cannot read {listing}: {error.strerror}", "restore it from the repository", ExitCode.INPUT
        ) from error
    if not names:
        raise ToolError(f"{listing} lists no patch", "list the patches there", ExitCode.INPUT)
    return [_read(listing, name, located(patches, folder, name, of), topic) for name in names]


def first(patches: list[Patch], number: int | None) -> list[Patch]:
    """Return the first patches of a series, all for None.

    Raises ToolError (USAGE) for more than there are.
    """
    if number is not None and number > len(patches):
        raise ToolError(
            f"the series has {len(patches)} patches, not {number}",
            "ask for that many or fewer",
            ExitCode.USAGE,
        )
    return patches[:number]


def _read(listing: Path, name: str, path: Path, topic: str) -> Patch:
    try:
        return Patch(f"{topic}/{name}".lstrip("/"), path, path.read_bytes())
    except OSError as error:
        raise ToolError(
            f"cannot read {path}: {error.strerror}", f"correct {listing}", ExitCode.INPUT
        ) from error
