"""Small git trees, as a kernel developer has them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@localhost")


@dataclass(frozen=True)
class GitTree:
    """A git tree whose branch is `topic`."""

    folder: Path

    @classmethod
    def init(cls, folder: Path) -> GitTree:
        """Make an empty one."""
        folder.mkdir()
        made = cls(folder)
        made.git("init", "--quiet", "--initial-branch", "topic")
        return made

    def git(self, *arguments: str) -> str:
        """Run git there; return what it printed."""
        command = ["git", "-C", self.folder, *IDENTITY, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, subject: str, **files: str) -> None:
        """Write files, and commit them; without files, a commit that changes nothing."""
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
