"""The page for operators, held against what it is about: its commands run, its variables are options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from fake_lpar import ANSIBLE, REPO, FakeHost
from fakehost import FakeHost as Kernel

TEXT = (REPO / "docs/operations.md").read_text()
COMMANDS = re.findall(r"^ansible-playbook -i (?:\S+) playbooks/(\S+)(.*)$", TEXT, re.MULTILINE)
#: That of other hosts, which has a page of its own and tests in test_ansible_ab.
OTHERS = "rollback.yml"


def test_the_page_has_every_playbook_that_it_is_about() -> None:
    assert {playbook for playbook, _ in COMMANDS} == {"preflight.yml", "time.yml", "apply-now.yml", OTHERS}


@pytest.mark.timeout(300)
def test_its_commands_run_as_they_stand_there(host: FakeHost, switching: Kernel, tmp_path: Path) -> None:
    """In their order, on one host."""
    host.variables = {name: value for name, value in host.variables.items() if name != "ab_variants"}
    for playbook, options in COMMANDS:
        arguments = shlex.split(options.replace("/srv/", f"{tmp_path}/srv/"))
        if playbook != OTHERS:
            result = host.play(playbook, *arguments)
            assert result.code == 0, f"{playbook} {options}\n{result.output}"
    assert switching.online == {0, 4}
    assert sorted(path.name for path in (tmp_path / "srv").iterdir()) == ["preflight", "timing"]
    names = sorted(path.name for path in (tmp_path / "srv/timing/raw/fake").iterdir())
    assert names == ["01-before.jsonl", "02-after.jsonl"]


def test_its_variables_are_ones_that_something_reads() -> None:
    named = set(re.findall(r"-e (\w+)=", TEXT)) | set(re.findall(r"^\| `(\w+)`", TEXT, re.MULTILINE))
    read = "".join(path.read_text() for path in (ANSIBLE / "playbooks").glob("*.yml"))
    for path in (ANSIBLE / "roles").glob("*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(path.read_text())["argument_specs"].values():
            read += " ".join(["", *spec.get("options", {})])
    assert len(named) > 8
    assert {name for name in named if not re.search(rf"\b{name}\b", read)} == set()


def test_every_reason_is_in_its_table() -> None:
    """By a word of each: a reason that is added to the judgement needs a row, or a place in one."""
    source = (REPO / "tools/hotplug-timer/src/hotplug_timer/target/judge.py").read_text()
    table = TEXT.partition("| verdict | reason |")[2].partition("\n\n")[0]
    words = {
        "_held": "lock",
        "_kexec": "kexec",
        "_clocksource": "clocksource",
        "_timing": "room",
        "_expediting": "rcu_normal",
        "_smt": "SMT level",
        "_disturbed_tasks": "SCHED_DEADLINE",
        "_disturbed_cpusets": "cpusets",
        "_isolated": "isolcpus",
        "_slow": "one by one",
    }
    judged = set(re.findall(r"yield from (_\w+)\(", source))
    assert judged == set(words)
    for word in words.values():
        assert word in table
