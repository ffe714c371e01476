"""What docs/results-format.md documents."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def documented(heading: str) -> set[str]:
    """Return the names in the first column of the tables below a heading."""
    text = (DOCS / "results-format.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    rows = re.findall(r"^\| (.+?) \|", sections[heading], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
