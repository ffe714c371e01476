"""The fields that the JSON schemas describe, for tests that hold output to them."""

from __future__ import annotations

import json
from typing import Any

from tests import ROOT

DOCS = ROOT / "docs"
Schema = dict[str, Any]


def schema(name: str) -> Schema:
    """Return the schema NAME.schema.json of the tools; ValueError without exactly one."""
    (path,) = (ROOT / "tools").glob(f"**/{name}.schema.json")
    found: Schema = json.loads(path.read_text("utf-8"))
    return found


def fields(part: Schema, whole: Schema, prefix: str = "") -> dict[str, str]:
    """Return the dotted names below a part of a schema with their descriptions; those of items as the array's.

    A key that varies has the name in its "title".
    """
    part = _resolved(part, whole)
    if part.get("type") == "array":
        return fields(part["items"], whole, prefix)
    named = {**part.get("properties", {})}
    named |= {child["title"]: child for child in part.get("patternProperties", {}).values()}
    if "title" in part.get("propertyNames", {}):
        named[part["propertyNames"]["title"]] = part["additionalProperties"]
    found = {}
    for name, child in named.items():
        path = f"{prefix}.{name}".strip(".")
        found |= {path: child.get("description", "")} | fields(child, whole, path)
    return found


def undescribed(part: Schema, whole: Schema) -> list[str]:
    """Return the names of fields without a description, but for those whose parent says where they are described."""
    found = fields(part, whole)
    elsewhere = tuple(f"{name}." for name, text in found.items() if "The fields are those of" in text)
    return [name for name, text in found.items() if not text and not name.startswith(elsewhere)]


def _resolved(part: Schema, whole: Schema) -> Schema:
    if "anyOf" in part:
        part = part["anyOf"][-1]
    reference = part.get("$ref")
    resolved: Schema = whole["$defs"][reference.rpartition("/")[2]] if reference else part
    return resolved
