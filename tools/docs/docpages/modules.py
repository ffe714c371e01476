"""The page of the collection's modules, from their DOCUMENTATION."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from docpages.paths import ROOT
from docpages.variables import described, plain

MODULES = ROOT / "ansible/plugins/modules"
FRAGMENT = ROOT / "ansible/plugins/doc_fragments/host_program.py"
HEAD = """\
# Modules of the collection

Roles of `smt.hotplug` use these modules, and playbooks of yours can.
`make docs` generates this page from `ansible/plugins/modules`.
In `ansible/`, `ansible-doc smt.hotplug.MODULE` prints the same.
One action plugin runs them all: it feeds the program of the host to its `python3` by standard input, in one
remote command, and leaves nothing there.
Each has the options `what`, `next_step` (words for a failure) and `answer_timeout` (600 seconds), too.
"""


def page() -> str:
    """Return a section for each module."""
    return HEAD + "".join(_section(path) for path in sorted(MODULES.glob("*.py")))


def _section(path: Path) -> str:
    texts = dict(_assigned(ast.parse(path.read_text("utf-8")).body))
    own = yaml.safe_load(texts["DOCUMENTATION"])
    (shared,) = (
        node for node in ast.parse(FRAGMENT.read_text("utf-8")).body if isinstance(node, ast.ClassDef)
    )
    attributes = yaml.safe_load(dict(_assigned(shared.body))["DOCUMENTATION"])["attributes"]
    check = own.get("attributes", attributes)["check_mode"]
    lines = [
        f"\n## {own['module']}\n",
        *(plain(text) for text in own["description"]),
        f"\n{plain(check['description'])}\n",
        *_table("option", own["options"]),
        "",
        *_table("returned", yaml.safe_load(texts["RETURN"])),
        f"\n```yaml\n{texts['EXAMPLES'].strip()}\n```",
    ]
    return "\n".join(lines) + "\n"


def _table(title: str, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield f"| {title} | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, row in rows.items():
        yield from described(name, row)


def _assigned(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in statements:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, ast.literal_eval(node.value)
