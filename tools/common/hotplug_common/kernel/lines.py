"""Kernel lines: the kernels that the patches are kept against, a data file each in kernel-patches/lines.

A branch of a line is a kernel that is near to it: it has a data file in kernel-patches/lines/branches, and of
the patches only those that differ.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotplug_common.debian import Suite
from hotplug_host.errors import ExitCode, ToolError

FOLDER = "lines"
BRANCHES = f"{FOLDER}/branches"
DEFAULT = "6.12"
KEY = "line"
FORMER_KEY = "base"
"""What artifact.json and source.json of earlier versions call the line."""


@dataclass(frozen=True)
class Line:
    """A kernel line: its source package in Debian, its patch topics, and additions to its fragments.

    A branch is `of` a line, and has no package.
    """

    name: str
    package: str
    suites: tuple[Suite, ...]
    topics: tuple[str, ...]
    fragments: Mapping[str, tuple[str, ...]]
    of: str = ""


def names(patches: Path) -> tuple[str, ...]:
    """Return the names of all kernel lines, oldest first."""
    return _named(patches / FOLDER)


def branches(patches: Path) -> tuple[str, ...]:
    """Return the names of all branches of lines, oldest first."""
    return _named(patches / BRANCHES)


def _named(folder: Path) -> tuple[str, ...]:
    found = (path.stem for path in folder.glob("*.toml"))
    return tuple(sorted(found, key=lambda name: [int(part) for part in name.split(".")]))


def load(patches: Path, name: str) -> Line:
    """Read the data file of one line or branch.

    Raises ToolError: USAGE for a line that has no file, INPUT for a file that does not fit.
    """
    branch = name in branches(patches)
    path = patches / (BRANCHES if branch else FOLDER) / f"{name}.toml"
    if not branch and name not in names(patches):
        known = ", ".join((*names(patches), *branches(patches))) or "none"
        raise ToolError(f"unknown kernel line '{name}'", f"choose one of: {known}", ExitCode.USAGE)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        if branch:
            return replace(load(patches, data["of"]), name=name, package="", suites=(), of=data["of"])
        return Line(
            name=name,
            package=data["package"],
            suites=tuple(Suite(**suite) for suite in data["suites"]),
            topics=tuple(data["topics"]),
            fragments={key: tuple(more) for key, more in data.get("fragments", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ToolError(
            f"cannot use {path}: {error}", "compare it with the other lines' files", ExitCode.INPUT
        ) from error


def named_in(record: Mapping[str, Any]) -> str:
    """Return the line that the content of an artifact.json or source.json names.

    Raises KeyError for one that names none.
    """
    name: str = record[FORMER_KEY] if FORMER_KEY in record else record[KEY]
    return name
