"""The patches of every line, and the experiments, read as git reads them."""

import re
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from hotplug_common.kernel import lines, series

FUNCTION = re.compile(r"(?:@@ \S+ \S+ @@ .*?|[ +](?!typedef\b)(?:[a-zA-Z_][\w \t*]*)?)\b(\w+)\([^;]*$")
"""What begins the definition of a function in a diff, or stands above a hunk of it."""
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
    def line(self) -> str:
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
        """The subject, on one line."""
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
    def functions(self) -> set[str]:
        """The functions of C files that the diff changes or adds, and macros that define one.

        They are those that git names above a hunk, and definitions within it that stay or come.
        """
        parts = re.split(r"^diff --git ", self.path.read_text(), flags=re.MULTILINE)[1:]
        lines = [line for part in parts if re.match(r"\S+\.[ch] ", part) for line in part.splitlines()]
        return {found[1] for line in lines if (found := FUNCTION.match(line))}

    @property
    def created(self) -> list[str]:
        """The files that do not exist without it."""
        return re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", self.path.read_text(), re.MULTILINE)

    def content(self, name: str) -> str:
        """Return what a file has that does not exist without it."""
        head = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1"
        rest = self.path.read_text().split(head, 1)[1].splitlines()
        # "@@ -0,0 +1,467 @@", or for one line "@@ -0,0 +1 @@"
        count = int(rest[0].partition(" ")[0].removeprefix(",") or 1)
        return "".join(f"{line.removeprefix('+')}\n" for line in rest[1 : 1 + count])


def touched_by(patch: str) -> list[str]:
    """Return the files that exist with a patch applied and differ because of it."""
    return re.findall(r"^\+\+\+ b/(\S+)$", patch, re.MULTILINE)


def line_patches(patches: Path, line: str) -> list[PatchFile]:
    """Return every listed patch of a line, in the order they apply; `patches` is kernel-patches."""
    found = lines.load(patches, line)
    folders = [series.topic_folder(patches, topic, line) for topic in found.topics]
    return [patch for folder in folders for patch in patches_of(patches, folder, found.of)]


def all_patches(patches: Path) -> list[PatchFile]:
    """Return every listed patch of every line, in the order they apply."""
    return [patch for line in lines.names(patches) for patch in line_patches(patches, line)]


def created_file(patches: Path, line: str, name: str) -> str:
    """Return the content of a file that a patch of a line creates; LookupError when none does."""
    for patch in line_patches(patches, line):
        if name in patch.created:
            return patch.content(name)
    raise LookupError(f"no patch of {line} creates {name}")


def experimental_patches(patches: Path) -> list[PatchFile]:
    """Return every listed patch of every experiment, in series order."""
    return [patch for folder in experiments(patches) for patch in patches_of(patches, folder)]


def folders(patches: Path) -> list[str]:
    """Return the folder of every topic of every line, relative to kernel-patches."""
    return [f"{topic}/{line}" for line in lines.names(patches) for topic in lines.load(patches, line).topics]


def experiments(patches: Path) -> list[str]:
    """Return the folder of every experiment, relative to kernel-patches."""
    return [f"{series.EXPERIMENTS}/{name}" for name in series.experiments(patches)]


def listed(patches: Path, folder: str) -> list[str]:
    """Return the names in a folder's series file, in order."""
    return series.parse((patches / folder / series.LISTING).read_text(), f"{folder}/{series.LISTING}")


def patches_of(patches: Path, folder: str, of: str = "") -> list[PatchFile]:
    """Return every listed patch of a folder, in series order; OF is the line that a branch's folder is of."""
    names = listed(patches, folder)
    return [PatchFile(folder, series.located(patches, folder, name, of)) for name in names]
