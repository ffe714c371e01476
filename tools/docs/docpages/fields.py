"""Tables of result fields, from the descriptions in the JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docpages.paths import only

Schema = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A field by its dotted name. `unit` and `description` are empty where the schema has none."""

    name: str
    unit: str
    description: str


def load(name: str) -> Schema:
    """Return the schema in NAME.schema.json below tools/."""
    schema: Schema = json.loads(only(f"{name}.schema.json").read_text("utf-8"))
    return schema


def table(which: str) -> str:
    """Return the fields of FILE.schema.json, or of one of its definitions for "FILE.schema.json PART"."""
    name, _, part = which.partition(" ")
    schema = load(name.removesuffix(".schema.json"))
    found = [one for one in fields(schema["$defs"][part] if part else schema, schema) if one.description]
    rows = [f"| `{field.name}` | {field.unit} | {field.description} |" for field in found]
    return "\n".join(["| field | unit | meaning |", "|---|---|---|", *rows])


def fields(part: Schema, schema: Schema, prefix: str = "") -> Iterator[Field]:
    """Yield the fields below a part of a schema, depth first; those of an array's items as the array's own.

    A key that varies has the name in its "title": a pattern's, or the one of all property names.
    """
    part = _resolved(part, schema)
    if part.get("type") == "array":
        yield from fields(part["items"], schema, prefix)
        return
    named = {**part.get("properties", {})}
    named |= {child["title"]: child for child in part.get("patternProperties", {}).values()}
    if "title" in part.get("propertyNames", {}):
        named[part["propertyNames"]["title"]] = part["additionalProperties"]
    for name, child in named.items():
        path = f"{prefix}.{name}".strip(".")
        yield Field(path, child.get("unit", ""), child.get("description", ""))
        yield from fields(child, schema, path)


def _resolved(part: Schema, schema: Schema) -> Schema:
    if "anyOf" in part:
        part = part["anyOf"][-1]
    reference = part.get("$ref")
    resolved: Schema = schema["$defs"][reference.rpartition("/")[2]] if reference else part
    return resolved
