import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from hotplug_host.errors import ExitCode
from hotplug_timer.compare.comparison import compare
from hotplug_timer.compare.summary import comparison_entry, summarize
from hotplug_timer.rcu_variants.render import to_json
from hotplug_timer.rcu_variants.table import make
from hotplug_timer.rcu_variants.variants import VARIANTS
from hotplug_timer.reader import read_files
from tests.hotplug_timer.rcu_variants.test_rcu_variants import files as variant_files
from tests.samples.docfields import DOCS, fields, schema, undescribed
from tests.samples.resultfiles import STOCK_COUNTS, records, write

SCHEMA = schema("result-v2")
SUMMARY = schema("summary-v1")
#: Each with the part whose fields are documented.
DESCRIBED = [
    *((name, part) for name in ("result-v2", "clock-check-v1") for part in ("run", "iteration", "end")),
    ("clock-audit-v1", "audit"),
    ("history-v1", "run"),
    ("summary-v1", ""),
    ("history-summary-v1", ""),
    ("rcu-variants-v1", ""),
]


@pytest.mark.parametrize(("name", "part"), DESCRIBED)
def test_every_field_is_described(name: str, part: str) -> None:
    whole = schema(name)
    Draft202012Validator.check_schema(whole)
    assert fields(whole["$defs"][part] if part else whole, whole)
    assert undescribed(whole["$defs"][part] if part else whole, whole) == []


@pytest.mark.parametrize(("name", "part"), DESCRIBED)
def test_the_page_has_every_field(name: str, part: str) -> None:
    """That the page is up to date is the test of tools/docs/refresh.py --check; this is about its content."""
    whole = schema(name)
    text = (DOCS / "reference/result-format.md").read_text("utf-8")
    begin = f"<!-- fields: {name}.schema.json {part}".strip() + " -->"
    _, found, below = text.partition(begin)
    assert found
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (.+) \|$", below.partition("<!-- end of fields -->")[0], re.MULTILINE)
    described = fields(whole["$defs"][part] if part else whole, whole)
    assert dict(rows) == {field: text for field, text in described.items() if text}


def test_a_field_without_a_description_is_noticed() -> None:
    whole = {"properties": {"a": {"description": "A."}, "b": {"type": "array", "items": {"properties": {"c": {}}}}}}
    assert undescribed(whole, whole) == ["b", "b.c"]


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
            write(tmp_path / "a", records("r1", "LABEL", [2.0], [1.0], counts=counts)),
            write(tmp_path / "b", records("r2", "patched", [2.0], [1.0], counts=counts)),
        ]
    )
    summary = summarize(data, compare(data, "LABEL"), "6.12")
    names = {name for name in keys(summary) if not re.search(r"^variants\.patched", name)}
    names = {re.sub(r"\b(off|on)(?=_s$|$|\.)", "OP", name) for name in names}
    assert fields(SUMMARY, SUMMARY).keys() == names
    Draft202012Validator(SUMMARY).validate(summary)


def test_every_key_of_the_rcu_variants_is_documented_and_no_other(tmp_path: Path) -> None:
    data = read_files([Path(file) for file in variant_files(tmp_path)])
    table = json.loads(to_json(make(data, VARIANTS)))
    shared = {
        f"rows.{name}" for name in comparison_entry(compare(data, "stock"), compare(data, "stock").rows[0])
    }
    whole = schema("rcu-variants-v1")
    assert fields(whole, whole).keys() == keys(table) - shared


def test_the_schema_is_a_schema_and_accepts_whole_records() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    whole = Draft202012Validator(SCHEMA)
    for record in records("r1", "stock", [2.0], counts=STOCK_COUNTS):
        whole.validate(record)
    assert not whole.is_valid({"record": "other"})


def test_exit_codes_are_documented_as_they_are() -> None:
    text = (DOCS / "reference/exit-codes.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| .+ \|$", text, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in ExitCode]
