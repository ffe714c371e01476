import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from docpages.fields import fields, load
from docpages.paths import DOCS
from hotplug_common.tables import to_json
from hotplug_host.errors import ExitCode
from hotplug_timer.compare.comparison import compare
from hotplug_timer.compare.summary import comparison_entry, summarize
from hotplug_timer.rcu_variants.render import sheet
from hotplug_timer.rcu_variants.table import make
from hotplug_timer.rcu_variants.variants import VARIANTS
from hotplug_timer.reader import read_files
from hotplug_timer.schema import RESULT
from tests.hotplug_timer.rcu_variants.test_rcu_variants import files as variant_files
from tests.samples.resultfiles import STOCK_COUNTS, records, write

SUMMARY = load("summary-v1")
#: Each with the part whose fields are documented.
DESCRIBED = [
    *(("result-v3", part) for part in ("run", "iteration", "end")),
    *(("result-v3", f"{tool}_{part}") for tool in ("timer", "clock") for part in ("run", "iteration")),
    ("clock-audit-v1", "audit"),
    ("history-v2", "run"),
    ("summary-v1", ""),
    ("history-summary-v1", ""),
    ("rcu-variants-v1", ""),
]


def names_of(schema: Any) -> set[str]:
    return {field.name for field in fields(schema, schema)}


def undescribed(part: Any, schema: Any) -> list[str]:
    """The fields without a description, without those whose parent names where they are described."""
    found = list(fields(part, schema))
    elsewhere = tuple(f"{field.name}." for field in found if "The fields are those of" in field.description)
    return [field.name for field in found if not field.description and not field.name.startswith(elsewhere)]


@pytest.mark.parametrize(("name", "part"), DESCRIBED)
def test_every_field_is_described(name: str, part: str) -> None:
    schema = load(name)
    Draft202012Validator.check_schema(schema)
    assert undescribed(schema["$defs"][part] if part else schema, schema) == []


@pytest.mark.parametrize(("name", "part"), DESCRIBED)
def test_the_page_has_every_field(name: str, part: str) -> None:
    """That the page is up to date is the test of tools/docs/refresh.py --check; this is about its content."""
    schema = load(name)
    text = (DOCS / "reference/result-format.md").read_text("utf-8")
    begin = f"<!-- fields: {name}.schema.json {part}".strip() + " -->"
    rows = text.partition(begin)[2].partition("<!-- end of fields -->")[0]
    shown = set(re.findall(r"^\| `([^`]+)` \|.*\| .+ \|$", rows, re.MULTILINE))
    described = fields(schema["$defs"][part] if part else schema, schema)
    assert shown == {field.name for field in described if field.description}


def test_a_field_without_a_description_is_noticed() -> None:
    items = {"type": "array", "items": {"properties": {"c": {}}}}
    schema = {"properties": {"a": {"description": "A."}, "b": items}}
    assert undescribed(schema, schema) == ["b", "b.c"]


def keys(value: object, prefix: str = "") -> set[str]:
    if isinstance(value, list):
        return set().union(*(keys(item, prefix) for item in value if isinstance(item, dict)), set())
    found = set()
    if isinstance(value, dict):
        for name, child in value.items():
            path = f"{prefix}.{name}".strip(".")
            found |= {path} | keys(child, path)
    return found


def test_every_key_of_the_summary_is_documented_and_no_other(tmp_path: Path) -> None:
    counts = {**STOCK_COUNTS, "synchronize_rcu_expedited": 0, "chunks": 1, "serial_chunks": 0}
    data = read_files(
        [
            write(tmp_path / "a", records("r1", "VARIANT", [2.0], [1.0], counts=counts)),
            write(tmp_path / "b", records("r2", "patched", [2.0], [1.0], counts=counts)),
        ]
    )
    summary = summarize(data, compare(data, "VARIANT"), "6.12")
    names = {name for name in keys(summary) if not re.search(r"^variants\.patched", name)}
    names = {re.sub(r"\b(off|on)(?=_s$|$|\.)", "OP", name) for name in names}
    assert names_of(SUMMARY) == names
    Draft202012Validator(SUMMARY).validate(summary)


def test_every_key_of_the_rcu_variants_is_documented_and_no_other(tmp_path: Path) -> None:
    data = read_files([Path(file) for file in variant_files(tmp_path)])
    table = json.loads(to_json(sheet(make(data, VARIANTS))))
    shared = {
        f"rows.{name}" for name in comparison_entry(compare(data, "stock"), compare(data, "stock").rows[0])
    }
    assert names_of(load("rcu-variants-v1")) == keys(table) - shared


def test_the_schema_is_a_schema_and_accepts_whole_records() -> None:
    whole_schema = RESULT.read()
    Draft202012Validator.check_schema(whole_schema)
    whole = Draft202012Validator(whole_schema)
    for record in records("r1", "stock", [2.0], counts=STOCK_COUNTS):
        whole.validate(record)
    assert not whole.is_valid({"record": "other"})


def test_exit_codes_are_documented_as_they_are() -> None:
    text = (DOCS / "reference/exit-codes.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| .+ \|$", text, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in ExitCode]
