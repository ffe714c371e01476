"""Data files of kernel lines that have one patch topic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_line(patches: Path, name: str, fragments: Mapping[str, Sequence[str]] | None = None) -> Path:
    """Write the data file of a line below a kernel-patches folder; return the folder of its patches."""
    file = patches / "lines" / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{key} = {json.dumps(list(more))}" for key, more in (fragments or {}).items()]
    suites = '[{ archive = "Debian", name = "trixie" }]'
    file.write_text(
        f'package = "linux-source-{name}"\nsuites = {suites}\ntopics = ["hotplug"]\n'
        + "\n".join(["[fragments]", *lines, ""])
    )
    folder = patches / "hotplug" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_branch(patches: Path, name: str, of: str) -> None:
    """Write the data file of a branch of a line."""
    file = patches / "lines/branches" / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'of = "{of}"\n')
