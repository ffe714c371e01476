"""What compilers said of a kernel tree, kept under a hash of all that goes in.

The same tree, files, configurations and tools give the same findings, so what was compiled once need not be
again: sparse knows no ccache, and a series has many states.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Finding:
    """A compiler's or sparse's complaint. Without its line number, which any patch above it moves."""

    file: str
    text: str


def state_of(tree: Path) -> str | None:
    """The hash of all files of a git tree; None when it has changes that are not committed."""
    if _said("git", "-C", str(tree), "status", "--porcelain"):
        return None
    return _said("git", "-C", str(tree), "rev-parse", "HEAD^{tree}")


def key(state: str, files: Sequence[str], tools: Iterable[str], recipes: Iterable[Path]) -> str:
    """Hash a tree's state, the files to compile, what tools say of themselves, and files that say how."""
    parts = [state, *files, *(_said(tool, "--version") for tool in tools)]
    parts += [f"{path.name}\n{path.read_text()}" for path in recipes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def kept(file: Path) -> set[Finding] | None:
    """What keep() has put there; None when there is nothing that can be read."""
    try:
        return {Finding(**one) for one in json.loads(file.read_text())}
    except (OSError, ValueError, TypeError):
        return None


def keep(file: Path, findings: set[Finding]) -> None:
    """Put findings into a file, at once or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(json.dumps([asdict(finding) for finding in sorted(findings)]))
    draft.replace(file)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
