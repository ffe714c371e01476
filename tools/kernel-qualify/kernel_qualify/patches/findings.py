"""What compilers reported of a kernel tree, kept under a hash of all that goes in.

The same source, patches, files, configurations and tools give the same findings, so what was compiled once
need not be again: sparse knows no ccache, and a series has many states.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from hotplug_common.kernel.series import Patch


@dataclass(frozen=True, order=True)
class Finding:
    """A compiler's or sparse's complaint. Without its line number, which any patch above it moves."""

    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


def state(source: str, patches: Iterable[Patch]) -> str:
    """Hash the files of a tree: a source, by its digest, with patches. Their messages change no file."""
    digest = hashlib.sha256(source.encode())
    for patch in patches:
        digest.update(hashlib.sha256(patch.diff).digest())
    return digest.hexdigest()


def key(state: str, files: Sequence[str], tools: Iterable[str], recipes: Iterable[str]) -> str:
    """Hash a tree's state, the files to compile, the versions of tools, and texts that say how."""
    parts = [state, *files, *(_version(tool) for tool in tools), *recipes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def kept(file: Path) -> frozenset[Finding] | None:
    """Return what keep() has put there; None when there is nothing that can be read."""
    try:
        return frozenset(Finding(**one) for one in json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def keep(file: Path, findings: Iterable[Finding]) -> None:
    """Put findings into a file, at once or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(json.dumps([asdict(finding) for finding in sorted(findings)]))
    draft.replace(file)


@cache
def _version(tool: str) -> str:
    return subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout.strip()
