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
        """As the series lists it: with its topic, if it has one."""
        return self.path.relative_to(PATCHES / self.base).as_posix()

    @property
    def topic(self) -> str:
        """The folder within its base, empty for those beside the series file."""
        return topic_of(self.name)

    @property
    def number(self) -> str:
        """What is unique of its name within a base: 0001, clocks-0001."""
        return "-".join(filter(None, (self.topic, self.path.name[:4])))

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
    """Every base folder, also those whose series is still empty."""
    return sorted(listing.parent.name for listing in PATCHES.glob("*/series"))


def experiments() -> list[str]:
    """The folder of every experiment."""
    return [f"{series.EXPERIMENTS}/{name}" for name in series.experiments(PATCHES)]


def listed(base: str) -> list[str]:
    """The names in a folder's series file, in order."""
    return series.parse((PATCHES / base / "series").read_text(), f"{base}/series")


def topic_of(name: str) -> str:
    """The folder in a name that a series lists, empty when it has none."""
    return name.rpartition("/")[0]


def topics(base: str) -> list[str]:
    """The topics of a base in series order, each once however its patches are strewn."""
    return list(dict.fromkeys(topic_of(name) for name in listed(base)))


def all_patches() -> list[PatchFile]:
    """Every listed patch of every base, in series order."""
    return [PatchFile(base, PATCHES / base / name) for base in bases() for name in listed(base)]


def experimental_patches() -> list[PatchFile]:
    """Every listed patch of every experiment, in series order."""
    return [PatchFile(folder, PATCHES / folder / name) for folder in experiments() for name in listed(folder)]


def patched_bases() -> list[str]:
    """The bases that have patches."""
    return [base for base in bases() if listed(base)]
