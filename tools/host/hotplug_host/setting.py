"""A kernel file that says something else for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One kernel file: what it says, and what it says while something is done."""

    name: str
    before: str
    during: str
