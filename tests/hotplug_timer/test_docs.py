import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

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
from tests.samples.docfields import DOCS, documented
from tests.samples.resultfiles import STOCK_COUNTS, records, write

SCHEMA: dict[str, Any] = json.loads(
    files("hotplug_timer.schema").joinpath("result-v2.schema.json").read_text("utf-8")
)


def fields(schema: dict[str, Any], prefix: str) -> set[str]:
    """Return the dotted names of all properties below a schema."""
    found = set()
    for name, child in schema.get("properties", {}).items():
        path = f"{prefix}.{name}"
        found |= {path} | fields(child, path) | fields(child.get("items", {}), path)
    return found


@pytest.mark.parametrize("kind", ["run", "iteration", "end"])
def test_every_field_of_the_schema_is_documented_and_no_other(kind: str) -> None:
    names = {name.removeprefix(f"{kind}.") for name in fields(SCHEMA["$defs"][kind], kind)}
    assert documented(f"`{kind}` records") == names


def test_every_field_of_the_history_is_documented_and_no_other() -> None:
    schema = json.loads(files("hotplug_timer.schema").joinpath("history-v1.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    names = {name.removeprefix("run.") for name in fields(schema["$defs"]["run"], "run")}
    assert documented("history: `run` records") == names


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
    names = {name for name in keys(summary) if not re.search(r"^variants\.patched|^variants\.LABEL$", name)}
    names = {re.sub(r"\b(off|on)(?=_s$|$|\.)", "OP", name) for name in names}
    assert documented("`summary.json`") == names


def test_every_key_of_the_rcu_variants_is_documented_and_no_other(tmp_path: Path) -> None:
    data = read_files([Path(file) for file in variant_files(tmp_path)])
    table = json.loads(to_json(make(data, VARIANTS)))
    shared = {
        f"rows.{name}" for name in comparison_entry(compare(data, "stock"), compare(data, "stock").rows[0])
    }
    assert documented("`rcu-variants.json`") == keys(table) - shared


def test_the_schema_is_a_schema_and_accepts_whole_records() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    whole = Draft202012Validator(SCHEMA)
    for record in records("r1", "stock", [2.0], counts=STOCK_COUNTS):
        whole.validate(record)
    assert not whole.is_valid({"record": "other"})


def test_exit_codes_are_documented_as_they_are() -> None:
    text = (DOCS / "exit-codes.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| .+ \|$", text, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in ExitCode]
