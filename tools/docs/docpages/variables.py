"""The page of the playbooks' variables, from the roles' argument specifications."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from docpages.paths import ROOT

PLAYBOOKS = ROOT / "ansible/playbooks"
ROLES = ROOT / "ansible/roles"
INCLUDES = ("ansible.builtin.include_role", "ansible.builtin.import_role")
#: A variable of the playbook that is handed on to a role, or to a keyword of the play.
HANDED_ON = re.compile(r"^\{\{ (?P<name>\w+)(?: \| default\((?P<default>.*)\))? \}\}$")
#: Keywords of a play that take a variable, with the meaning of the variable.
KEYWORDS = {
    "hosts": "Host of the inventory on which the play runs.",
    "serial": "Hosts at a time, a number or a percentage.",
    "max_fail_percentage": "Share of failed hosts in a batch above which the next batch is left alone.",
}
#: Options for the tests alone, and one whose default is a command line.
HIDDEN = ("_unit_dir", "_rollback_step")
#: Checks the plan of the playbook's own role, and gets its options from that.
INTERNAL = ("preflight", "main")
#: What more than one role reads.
SETTINGS = ("settings", "main")
HEAD = """\
# Variables of the playbooks

Set a variable with `-e NAME=VALUE`, in a file with `-e @FILE`, or in the
[inventory](../../inventory/README.md).
`make docs` generates this page from the playbooks and from `ansible/roles/*/meta/argument_specs.yml`.
`ansible-doc -t role -r ansible/roles ROLE` prints the options of one role, internal roles included.
A variable without a default is required, unless its description names another one that can replace it.
A variable by an old name ends a run before it does anything, and the message has the new name.

## Settings of hosts

Every playbook that needs one of these reads it by this name.
"""
TABLE = "\n| variable | type | default | meaning |\n|---|---|---|---|\n"


@dataclass
class Play:
    """Everything in a playbook that takes a variable. `entries` are roles with their entry points."""

    entries: list[tuple[str, str]] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)


def page() -> str:
    """Return a section of what all playbooks read, and one for each that takes a variable of its own."""
    settings = [row for name, option in _shown_options(*SETTINGS) for row in described(name, option)]
    sections = [(path.name, list(_rows(path))) for path in sorted(PLAYBOOKS.glob("*.yml"))]
    own = "".join(f"\n## {name}\n{TABLE}" + "\n".join(rows) + "\n" for name, rows in sections if rows)
    return HEAD + TABLE + "\n".join(settings) + "\n" + own


def _rows(playbook: Path) -> Iterator[str]:
    play = Play()
    _collect(yaml.safe_load(playbook.read_text("utf-8")), play)
    made = set().union(*(_made(role, entry) for role, entry in play.entries))
    seen = set()
    for role, entry in play.entries:
        for name, option in _shown_options(role, entry):
            handed = HANDED_ON.match(str(play.given.get(name, "")))
            shown = handed["name"] if handed else name
            if (name in play.given and not handed) or shown in made or shown in seen:
                continue
            seen.add(shown)
            yield from described(shown, option)
    for keyword, value in play.keywords.items():
        if handed := HANDED_ON.match(str(value)):
            default = (handed["default"] or "").strip("'")
            kind = "" if keyword == "hosts" else "int"
            yield f"| `{handed['name']}` | {kind} | `{default}` | {KEYWORDS[keyword]} |"


def _collect(node: Any, play: Play) -> None:
    """Add to PLAY the roles, the keywords and the variables below a node of a playbook."""
    if isinstance(node, list):
        for child in node:
            _collect(child, play)
    elif isinstance(node, dict):
        for include in INCLUDES:
            if include in node:
                entry = (node[include]["name"], node[include].get("tasks_from", "main"))
                if entry not in (INTERNAL, *play.entries):
                    play.entries.append(entry)
        play.given |= node.get("vars") or {}
        play.keywords |= {keyword: node[keyword] for keyword in KEYWORDS if keyword in node}
        for child in node.values():
            _collect(child, play)


def _shown_options(role: str, entry: str) -> Iterator[tuple[str, dict[str, Any]]]:
    specs = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text("utf-8"))["argument_specs"]
    for name, option in (specs.get(entry, {}).get("options") or {}).items():
        if not name.endswith(HIDDEN):
            yield name, option


def _made(role: str, entry: str) -> set[str]:
    """Return the facts that an entry point sets, which a playbook hands on as options."""
    tasks = yaml.safe_load((ROLES / role / f"tasks/{entry}.yml").read_text("utf-8"))
    return {name for task in tasks for name in task.get("ansible.builtin.set_fact", ())}


def described(name: str, option: dict[str, Any]) -> Iterator[str]:
    """Yield a row for an option, and for each below it."""
    kind = option.get("type", "str") + (f" of {option['elements']}" if "elements" in option else "")
    default = f"`{_shown(option['default'])}`" if option.get("default") not in (None, "") else ""
    if option.get("default") == "":
        default = "empty"
    text = option["description"]
    meaning = plain(" ".join(text) if isinstance(text, list) else text)
    if "choices" in option:
        meaning += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
    yield f"| `{name}` | {kind} | {default} | {meaning} |"
    for inner, below in option.get("options", {}).items():
        yield from described(f"{name}.{inner}", below)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def plain(text: str) -> str:
    """Return Ansible's markup, such as C(this), as Markdown."""
    marked = re.sub(r"\b[CVOB]\(([^)]*)\)", r"`\1`", text)
    return " ".join(marked.split()).replace("|", "\\|")
