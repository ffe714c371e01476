"""Kernel lines: the kernels that the patches are kept against, a data file each in kernel-patches/lines."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotplug_common.debian import Suite
from hotplug_host.errors import ExitCode, ToolError

FOLDER = "lines"
DEFAULT = "6.12"
KEY = "line"
FORMER_KEY = "base"
"""What artifact.json and source.json of earlier versions call the line."""


@dataclass(frozen=True)
class Line:
    """A kernel line: its source package in Debian, its patch topics, and additions to its fragments."""

    name: str
    package: str
    suites: tuple[Suite, ...]
    topics: tuple[str, ...]
    fragments: Mapping[str, tuple[str, ...]]


def names(patches: Path) -> tuple[str, ...]:
    """Return the names of all kernel lines, oldest first."""
    found = (path.stem for path in (patches / FOLDER).glob("*.toml"))
    return tuple(sorted(found, key=lambda name: [int(part) for part in name.split(".")]))


def load(patches: Path, name: str) -> Line:
    """Read the data file of one line.

    Raises ToolError: USAGE for a line that has no file, INPUT for a file that does not fit.
    """
    path = patches / FOLDER / f"{name}.toml"
    if name not in names(patches):
        known = ", ".join(names(patches)) or "none"
        raise ToolError(f"unknown kernel line '{name}'", f"choose one of: {known}", ExitCode.USAGE)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
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
