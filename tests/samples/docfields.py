"""What docs/results-format.md documents, and what there is to document."""

from __future__ import annotations

import re
from typing import Any

from tests import ROOT

DOCS = ROOT / "docs"


def documented(heading: str) -> set[str]:
    """Return the names in the first column of the tables below a heading."""
    text = (DOCS / "results-format.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    rows = re.findall(r"^\| (.+?) \|", sections[heading], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def fields(part: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> set[str]:
    """Return the dotted names of the properties below a part of a schema, those of items as the array's."""
    part = _resolved(part, schema)
    if part.get("type") == "array":
        return fields(part["items"], schema, prefix)
    found = set()
    for name, child in part.get("properties", {}).items():
        path = f"{prefix}.{name}".strip(".")
        found |= {path} | fields(child, schema, path)
    return found


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in part:
        part = part["anyOf"][-1]
    reference = part.get("$ref")
    resolved: dict[str, Any] = schema["$defs"][reference.rpartition("/")[2]] if reference else part
    return resolved
