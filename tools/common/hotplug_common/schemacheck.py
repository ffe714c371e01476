"""Holding records against a schema: quickly, and with words where one does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import fastjsonschema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


@dataclass(frozen=True)
class Schema:
    """A JSON schema that is data of a package, in a file of that name."""

    package: str
    file: str

    def read(self) -> dict[str, Any]:
        """Return the schema as it is written."""
        schema: dict[str, Any] = json.loads(files(self.package).joinpath(self.file).read_text("utf-8"))
        return schema

    def problem_of(self, kind: str, record: Mapping[str, Any]) -> str | None:
        """Say what is wrong with a record that is to be a KIND of `$defs`; None when nothing is.

        The compiled check takes a fifteenth of the time of the one that can name what is wrong, and a
        file may hold a million records.
        """
        try:
            _compiled(self, kind)(record)
        except fastjsonschema.JsonSchemaValueException as error:
            found = sorted(_validator(self, kind).iter_errors(record), key=lambda e: list(map(str, e.path)))
            if not found:  # "$" in a pattern: the other one lets a line end pass before it
                return f"{'.'.join(error.path[1:]) or kind}: {error.message}"
            name = ".".join(map(str, found[0].absolute_path)) or kind
            return f"{name}: {found[0].message}"
        return None


@cache
def _validator(schema: Schema, kind: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  only what does not fit needs it

    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": schema.read()["$defs"]})


@cache
def _compiled(schema: Schema, kind: str) -> Callable[[Mapping[str, Any]], object]:
    # The library knows no later draft; the schema uses nothing that has changed since this one.
    draft = "http://json-schema.org/draft-07/schema#"
    compiled: Callable[[Mapping[str, Any]], object] = fastjsonschema.compile(
        {"$schema": draft, "$ref": f"#/$defs/{kind}", "$defs": schema.read()["$defs"]}
    )
    return compiled
