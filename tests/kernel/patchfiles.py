"""The patches of every base, and the experiments, read as git reads them."""

import re
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from hotplug_common.kernel import lines, series
from tests import ROOT

PATCHES = ROOT / "kernel-patches"
SUBJECT = re.compile(r"\[PATCH\] (?P<prefix>[\w/., :-]+): (?P<summary>.+)")


@dataclass(frozen=True)
class PatchFile:
    """One patch: the mail around it, and what its diff touches. `folder` is relative to kernel-patches."""

    folder: str
    path: Path

    @property
    def topic(self) -> str:
        """Its topic; of an experiment, the folder of all experiments."""
        return self.folder.partition("/")[0]

    @property
    def base(self) -> str:
        """The kernel line; of an experiment, its name."""
        return self.folder.partition("/")[2]

    @property
    def name(self) -> str:
        """As a loaded series calls it: with its topic."""
        return f"{self.topic}/{self.path.name}"

    @property
    def number(self) -> str:
        """What is unique of its name within a line: clocks-0001."""
        return f"{self.topic}-{self.path.name[:4]}"

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
        return touched_by(self.path.read_text())

    @property
    def created(self) -> list[str]:
        """The files that do not exist without it."""
        return re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", self.path.read_text(), re.MULTILINE)


def touched_by(patch: str) -> list[str]:
    """The files that exist with a patch applied and differ because of it."""
    return re.findall(r"^\+\+\+ b/(\S+)$", patch, re.MULTILINE)


def bases() -> list[str]:
    """Every kernel line."""
    return list(lines.names(PATCHES))


def topics(base: str) -> tuple[str, ...]:
    """The topics of a line in the order they apply."""
    return lines.load(PATCHES, base).topics


def folders() -> list[str]:
    """The folder of every topic of every line, relative to kernel-patches."""
    return [f"{topic}/{base}" for base in bases() for topic in topics(base)]


def experiments() -> list[str]:
    """The folder of every experiment."""
    return [f"{series.EXPERIMENTS}/{name}" for name in series.experiments(PATCHES)]


def listed(folder: str) -> list[str]:
    """The names in a folder's series file, in order."""
    return series.parse((PATCHES / folder / "series").read_text(), f"{folder}/series")


def patches_of(folder: str) -> list[PatchFile]:
    """Every listed patch of a folder, in series order."""
    return [PatchFile(folder, PATCHES / folder / name) for name in listed(folder)]


def all_patches() -> list[PatchFile]:
    """Every listed patch of every line, in the order they apply."""
    return [patch for folder in folders() for patch in patches_of(folder)]


def experimental_patches() -> list[PatchFile]:
    """Every listed patch of every experiment, in series order."""
    return [patch for folder in experiments() for patch in patches_of(folder)]
