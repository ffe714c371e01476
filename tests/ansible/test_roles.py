"""What the roles promise about themselves: every option documented, nothing from outside ansible-core."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from smt_fleet.recorder import PHASES
from tests.fakes.fake_lpar import ANSIBLE, REPO, FakeLpar

ROLES = sorted((ANSIBLE / "roles").iterdir())
NAMES = [role.name for role in ROLES]
#: What a role's names begin with, where it is not the role's name: operators know these.
PREFIXES = {
    "ab": ("ab", "bisect", "rcu_variants", "regress"),
    "boot": ("boot", "restore"),
    "settings": ("ab", "settings", "smt"),
}
#: Words that begin like a role's and are keys, modules or commands.
WORDS = {
    *("boot_bytes", "boot_entry", "boot_fallback", "boot_id"),
    *("smt_fleet", "smt_level", "smt_persist", "smt_state", "smt_switch"),
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def specs(role: Path) -> dict[str, Any]:
    """The entry points of a role that are documented."""
    found: dict[str, Any] = load(role / "meta/argument_specs.yml")["argument_specs"]
    return found


def options(role: Path) -> dict[str, dict[str, Any]]:
    """Every documented option of a role, over all its entry points."""
    return {name: option for spec in specs(role).values() for name, option in spec.get("options", {}).items()}


def undescribed(name: str, option: dict[str, Any]) -> list[str]:
    """Names, with their parents, of options that lack a description or a type."""
    inner = [
        n for key, value in option.get("options", {}).items() for n in undescribed(f"{name}.{key}", value)
    ]
    return inner if option.get("description") and option.get("type") else [name, *inner]


def task_files(role: Path) -> list[Path]:
    return sorted((role / "tasks").glob("*.yml"))


def variables(role: Path, kind: str) -> dict[str, Any]:
    """A role's defaults or vars, of one file or of several."""
    return {name: value for path in (role / kind).rglob("*.yml") for name, value in load(path).items()}


def prefixed(text: str, role: Path) -> set[str]:
    """The words in a text that begin as the role's names do."""
    begins = tuple(f"{prefix}_" for prefix in PREFIXES.get(role.name, (role.name,)))
    words = re.findall(r"\b[a-z][a-z0-9_]*\b(?![.]yml)", text)
    return {word for word in words if word.startswith(begins)} - WORDS


def used(role: Path) -> str:
    """Everything in which a role mentions variables, without the collection's modules and filters."""
    files = [*task_files(role), *(role / "vars").rglob("*.yml"), *(role / "defaults").rglob("*.yml")]
    return re.sub(r"\bsmt[.]hotplug[.]\w+", "", "".join(path.read_text() for path in files))


def given(tasks: list[dict[str, Any]]) -> set[str]:
    """The names that tasks give a value to, without those that they give to a role."""
    names: set[str] = set()
    for task in tasks:
        for section in ("block", "rescue", "always"):
            names |= given(task.get(section, []))
        control = task.get("loop_control", {})
        names |= {str(control[key]) for key in ("loop_var", "index_var") if key in control}
        names |= {str(task["register"])} if "register" in task else set()
        names |= set(task.get("ansible.builtin.set_fact", {}))
        names |= set(task.get("ansible.builtin.set_stats", {}).get("data", {}))
        if "ansible.builtin.include_role" not in task:
            names |= {name for name in task.get("vars", {}) if not name.startswith("ansible_")}
    return names


def made_here(role: Path) -> set[str]:
    """The names that a role's own files give a value to."""
    return set(variables(role, "vars")).union(*(given(load(path)) for path in task_files(role)))


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_that_has_a_default_is_documented_with_it(role: Path) -> None:
    documented = options(role)
    defaults = variables(role, "defaults")

    assert {name: option["default"] for name, option in documented.items() if "default" in option} == defaults
    for name, option in documented.items():
        assert option.get("required", False) != (name in defaults), (
            f"{name}: required or with a default, not both"
        )


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_says_what_it_is(role: Path) -> None:
    assert [name for key, option in options(role).items() for name in undescribed(key, option)] == []


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_what_a_role_makes_begins_as_its_names_do(role: Path) -> None:
    names = made_here(role) | set(variables(role, "defaults"))
    assert names - prefixed(" ".join(names), role) == set()


def test_no_name_is_of_two_roles() -> None:
    """Or it would be one thing here and another there. A run may plan what settings have a default for."""
    names = [name for role in ROLES for name in made_here(role)]
    assert [name for name in names if names.count(name) > 1] == []
    defaults = [name for role in ROLES for name in variables(role, "defaults")]
    assert [name for name in defaults if defaults.count(name) > 1] == []


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_name_that_begins_as_a_role_s_is_an_option_or_made(role: Path) -> None:
    known = {name for other in ROLES for name in {*options(other), *made_here(other)}}
    named = set().union(*(prefixed(used(role), other) for other in ROLES))
    assert named - known - used_by_playbooks() - (set(OLD) if role.name == "settings" else set()) == set()


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_is_used(role: Path) -> None:
    everywhere = " ".join(map(used, ROLES))
    assert set(options(role)) - prefixed(everywhere, role) - used_by_playbooks() == set()


def used_by_playbooks() -> set[str]:
    text = "".join(path.read_text() for path in (ANSIBLE / "playbooks").glob("*.yml"))
    return set(re.findall(r"\b(?:ab|build|clocks|deploy)_\w+", text))


def includes(node: Any) -> set[tuple[str, str]]:
    """The roles, with entry points, that a file includes."""
    if isinstance(node, list):
        return set().union(*map(includes, node))
    if not isinstance(node, dict):
        return set()
    found = set().union(*map(includes, node.values()))
    role = node.get("ansible.builtin.include_role")
    return found | {(role["name"], role.get("tasks_from", "main"))} if role else found


def test_what_no_playbook_includes_is_documented_as_internal() -> None:
    public = {pair for path in (ANSIBLE / "playbooks").glob("*.yml") for pair in includes(load(path))}
    inner = {pair for role in ROLES for path in task_files(role) for pair in includes(load(path))}
    documented = {
        (role.name, entry): spec["short_description"].startswith("Internal: ")
        for role in ROLES
        for entry, spec in specs(role).items()
    }
    # Every role depends on it.
    del documented["settings", "main"]
    assert documented == {pair: pair not in public for pair in public | inner}


def test_every_role_gets_the_settings() -> None:
    assert [role.name for role in ROLES if (role / "meta/main.yml").exists()] == [
        name for name in NAMES if name != "settings"
    ]
    for role in ROLES:
        meta = load(role / "meta/main.yml") or {"dependencies": [{"role": "settings"}]}
        assert meta["dependencies"] == [{"role": "settings"}]


def test_smt_fleet_has_a_phase_for_entry_points_that_there_are() -> None:
    entries = {f"{role.name}/{entry}" for role in ROLES for entry in specs(role)}
    assert set(PHASES) - entries == set()
    assert {"ab/measure", "boot/kexec", "boot/restore", "deploy/main", "smt/switch"} <= set(PHASES)


#: Each old name of a variable with the new one.
OLD = {
    old: name
    for name, names in load(ANSIBLE / "roles/settings/vars/main.yml")["settings_renamed"].items()
    for old in names
}


def test_old_names_lead_to_options_and_are_none() -> None:
    named = {name for role in ROLES for name in {*options(role), *made_here(role)}}
    assert set(OLD.values()) - named == set()
    assert set(OLD) & named == set()
    for path in (*ANSIBLE.rglob("*.yml"), *ANSIBLE.glob("*.sh"), *INVENTORY.rglob("*.yml")):
        if path != ANSIBLE / "roles/settings/vars/main.yml":
            assert set(OLD) & set(re.findall(r"\w+", path.read_text())) == set(), path


def test_a_variable_by_an_old_name_is_refused(host: FakeLpar) -> None:
    """As it is given by -e, before a playbook's first look at a host, and by an inventory."""
    given_here = {"deploy_panic": 20, "kernel_build_tool": "/nowhere"}
    result = host.play("deploy.yml", deploy_artifact="/nowhere", **given_here)
    assert result.code != 0
    said = "fake: deploy_panic is now ab_panic, kernel_build_tool is now build_tool; use the new name"
    assert said in result.output
    assert host.commands() == []


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
    ours = {f"smt.hotplug.{path.stem}" for path in (ANSIBLE / "plugins/modules").glob("*.py")}
    assert {module for module in used if not module.startswith("ansible.builtin.")} == ours


def test_tasks_that_lab_tests_wait_for_are_there() -> None:
    """Those tests take an hour, and seldom run: a task that got another name would not be missed."""
    source = (REPO / "tests/lab/test_faults_of_hosts.py").read_text()
    awaited = re.findall(r'await_task\(command, "([^"]+)"\)', source)
    roles = "".join(path.read_text() for role in ROLES for path in role.rglob("tasks/*.yml"))
    assert len(awaited) >= 2
    assert [name for name in awaited if f"- name: {name}" not in roles] == []
