"""The patches of every base, and the experiments, read as git reads them."""

import re
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from lpar_lab.kernel import series

PATCHES = Path(__file__).resolve().parents[2] / "kernel-patches"
SUBJECT = re.compile(r"\[PATCH\] (?P<prefix>[\w/., :-]+): (?P<summary>.+)")


@dataclass(frozen=True)
class PatchFile:
    """One patch: the mail around it, and what its diff touches. `base` is its folder."""

    base: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def subject(self) -> str:
        mail = message_from_bytes(self.path.read_bytes(), policy=default)
        return " ".join(str(mail["Subject"]).split())

    @property
    def message(self) -> str:
        """The commit message below the subject."""
        return self.path.read_text().split("\n\n", 1)[1].split("\n---\n", 1)[0]

    @property
    def added(self) -> list[str]:
        """The lines that the diff adds."""
        return re.findall(r"^\+(?!\+\+ )(.*)$", self.path.read_text(), re.MULTILINE)

    @property
    def touched(self) -> list[str]:
        """The files that exist with the patch applied and differ because of it."""
        return re.findall(r"^\+\+\+ b/(\S+)$", self.path.read_text(), re.MULTILINE)


def bases() -> list[str]:
    """Every base folder, also those whose series is still empty."""
    return sorted(listing.parent.name for listing in PATCHES.glob("*/series"))


def experiments() -> list[str]:
    """The folder of every experiment."""
    return [f"{series.EXPERIMENTS}/{name}" for name in series.experiments(PATCHES)]


def listed(base: str) -> list[str]:
    """The names in a folder's series file, in order."""
    return series.parse((PATCHES / base / "series").read_text(), f"{base}/series")


def all_patches() -> list[PatchFile]:
    """Every listed patch of every base, in series order."""
    return [PatchFile(base, PATCHES / base / name) for base in bases() for name in listed(base)]


def experimental_patches() -> list[PatchFile]:
    """Every listed patch of every experiment, in series order."""
    return [PatchFile(folder, PATCHES / folder / name) for folder in experiments() for name in listed(folder)]


def patched_bases() -> list[str]:
    """The bases that have patches."""
    return [base for base in bases() if listed(base)]
