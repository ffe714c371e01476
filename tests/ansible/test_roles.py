"""What the roles promise about themselves: every option documented, nothing from outside ansible-core."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hotplug_common.hostmodules import MODULES
from tests.fakes.fake_lpar import ANSIBLE, REPO

ROLES = sorted((ANSIBLE / "roles").iterdir())
NAMES = [role.name for role in ROLES]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def options(role: Path) -> dict[str, dict[str, Any]]:
    """Every documented option of a role, over all its entry points."""
    specs = load(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: option for spec in specs.values() for name, option in spec.get("options", {}).items()}


def undescribed(name: str, option: dict[str, Any]) -> list[str]:
    """Names, with their parents, of options that lack a description or a type."""
    inner = [
        n for key, value in option.get("options", {}).items() for n in undescribed(f"{name}.{key}", value)
    ]
    return inner if option.get("description") and option.get("type") else [name, *inner]


def task_files(role: Path) -> list[Path]:
    return sorted((role / "tasks").glob("*.yml"))


def own_names(role: Path) -> set[str]:
    """The names with the role's prefix that its tasks and variables mention."""
    text = "".join(path.read_text() for path in [*task_files(role), *(role / "vars").glob("*.yml")])
    return {word for word in re.findall(r"\b[a-z][a-z0-9_]*\b", text) if word.startswith(f"{role.name}_")}


def made_here(role: Path) -> set[str]:
    """The names with the role's prefix that its own files give a value to."""
    made: set[str] = set(load(role / "vars/main.yml") or {})
    for path in task_files(role):
        text = path.read_text()
        made |= set(re.findall(r"(?:register|loop_var|index_var): (\w+)", text))
        made |= set(re.findall(r"^\s+(\w+):", text, re.MULTILINE))
    return made


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_that_has_a_default_is_documented_with_it(role: Path) -> None:
    documented = options(role)
    defaults = load(role / "defaults/main.yml") or {}

    assert {name: option["default"] for name, option in documented.items() if "default" in option} == defaults
    for name, option in documented.items():
        assert option.get("required", False) != (name in defaults), (
            f"{name}: required or with a default, not both"
        )


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_says_what_it_is(role: Path) -> None:
    assert [name for key, option in options(role).items() for name in undescribed(key, option)] == []


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_name_that_a_role_uses_is_an_option_or_its_own(role: Path) -> None:
    assert own_names(role) - set(options(role)) - made_here(role) == set()


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_is_used(role: Path) -> None:
    assert set(options(role)) - own_names(role) - used_by_playbooks() == set()


def used_by_playbooks() -> set[str]:
    text = "".join(path.read_text() for path in (ANSIBLE / "playbooks").glob("*.yml"))
    return set(re.findall(r"\b(?:ab|build|clocks|deploy)_\w+", text))


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_the_readme_says_what_the_role_is_for(role: Path) -> None:
    text = (role / "README.md").read_text()

    assert text.startswith(f"# {role.name}\n")
    assert "meta/argument_specs.yml" in text


INVENTORY = REPO / "inventory"
GROUPS = sorted([*INVENTORY.glob("group_vars/*.yml"), *INVENTORY.glob("example/group_vars/*.yml")])


def hosts_of(group: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The hosts in a group and those below it, with their own variables."""
    found = {name: own or {} for name, own in (group.get("hosts") or {}).items()}
    for below in (group.get("children") or {}).values():
        for name, own in hosts_of(below).items():
            found[name] = found.get(name, {}) | own
    return found


def known() -> set[str]:
    """What may be set in an inventory: options, what playbooks read, and Ansible's own."""
    names = {name for role in ROLES for name in options(role)}
    return names | used_by_playbooks() | {"ansible_user", "ansible_become", "ansible_python_interpreter"}


def documented() -> list[str]:
    """The variables of which inventory/README.md says what they are."""
    return re.findall(r"^\| `(\w+)` \|", (INVENTORY / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("file", GROUPS, ids=[str(path.relative_to(INVENTORY)) for path in GROUPS])
def test_group_variables_are_options(file: Path) -> None:
    assert set(load(file)) - known() == set()


def test_every_variable_of_the_inventories_is_documented_once() -> None:
    hosts = hosts_of(load(INVENTORY / "example/hosts.yml")["all"])
    used = set().union(*(load(file) for file in GROUPS), *hosts.values())
    assert used - known() == set()
    assert used - set(documented()) - {"ansible_user", "ansible_become"} == set()
    assert sorted(set(documented())) == sorted(documented())


def test_both_platforms_set_the_same() -> None:
    power, x86 = (load(INVENTORY / f"example/group_vars/{group}.yml") for group in ("power", "x86"))

    assert set(power) == set(x86)


def test_the_example_has_every_kind_of_host() -> None:
    top = load(INVENTORY / "example/hosts.yml")["all"]["children"]
    power, x86 = (top["smt_hosts"]["children"][group] for group in ("power", "x86"))
    assert set(power["children"]) == {"power_dedicated", "power_shared"}
    assert all(hosts_of(group) for group in (*power["children"].values(), x86, top["build_hosts"]))


def test_the_table_of_the_inventories_has_their_values() -> None:
    text = (INVENTORY / "README.md").read_text()
    columns = ("example/group_vars/power", "example/group_vars/x86", "group_vars/smt_hosts")
    of = [load(INVENTORY / f"{column}.yml") for column in columns]
    for name in set(of[0]) & set(of[2]):
        row = re.search(rf"^\| `{name}` \| .* \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
        assert row, name
        assert list(row.groups()) == [str(variables[name]) for variables in of]


def modules(tasks: list[dict[str, Any]]) -> set[str]:
    found: set[str] = set()
    for task in tasks:
        for section in ("block", "rescue", "always"):
            found |= modules(task.get(section, []))
        found |= {key for key in task if "." in key}
    return found


def test_only_builtin_modules_and_our_own_are_used_and_by_their_full_names() -> None:
    tasks = [load(path) for role in ROLES for path in task_files(role)]
    plays = [play for path in (ANSIBLE / "playbooks").glob("*.yml") for play in load(path)]
    used = set().union(*map(modules, tasks), *(modules(play.get("tasks", [])) for play in plays))

    assert used
    ours = {f"smt.hotplug.{name}" for name in MODULES}
    assert {module for module in used if not module.startswith("ansible.builtin.")} == ours
