"""Runs as JSON: what a test leaves in its results, and what docs/data keeps."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def save(run: DataclassInstance, path: Path) -> Path:
    """Write a run, in a folder that need not be there yet; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(run), indent=1) + "\n")
    return path
