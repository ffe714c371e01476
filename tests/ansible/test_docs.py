"""The pages for operators: commands run, variables are options, and every reason is in the table."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.ansible.test_build import lpar_lab
from tests.ansible.test_clocks import become_server
from tests.fakes.fake_lpar import ANSIBLE, DEFAULT_RELEASE, MACHINE, REPO, FakeLpar

PAGES = REPO / "docs/guides/operators"
#: The pages, in the order in which their commands run.
TEXT = "".join(
    (PAGES / f"{page}.md").read_text()
    for page in ("index", "deploy", "time-your-machine", "troubleshooting", "switch-faster")
)


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return the commands of a text, each with the playbooks that it names, and its options."""
    found = re.finditer(r"^ansible-playbook -i \S+ ((?:playbooks/\S+ ?)+)(.*)$", text, re.MULTILINE)
    return [(one[1].replace("playbooks/", "").strip(), one[2]) for one in found]


COMMANDS = commands_of(TEXT)
FLEET = re.search(r"^```json\n(.*?deploy_artifacts.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
#: What is of other hosts here, and has tests of its own.
OTHERS = ("build_host=", "boot=")
#: A host of the pages, which the fake one stands for.
HOST = "lpar17.example.com"
#: What build.yml says.
RELEASE = "6.12-patched"


def test_the_pages_have_every_playbook_that_they_are_about() -> None:
    assert {playbook for playbooks, _ in COMMANDS for playbook in playbooks.split()} == {
        *(
            "apply.yml",
            "build.yml",
            "deploy.yml",
            "preflight.yml",
            "rollback.yml",
            "time.yml",
            "trace.yml",
        )
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_their_commands_run_as_they_are(switching: FakeLpar, tmp_path: Path) -> None:
    """In their order, on one switching."""
    given = ("ab_variants", "ab_results_dir", "ab_iterations")
    switching.variables = {name: value for name, value in switching.variables.items() if name not in given}
    # The kernels of the stand-in are for this machine.
    switching.put("proc/sys/kernel/arch", MACHINE)
    switching.variables["build_tool"] = str(lpar_lab(switching, RELEASE, "tar"))
    assert FLEET
    here = re.sub(r"RELEASE\w*", RELEASE, FLEET[1].replace("/srv/", f"{tmp_path}/srv/"))
    (switching.work / "fleet.json").write_text(here)
    for playbook, options in COMMANDS:
        if not any(word in options for word in OTHERS):
            here = (
                options.replace("/srv/", f"{tmp_path}/srv/").replace("RELEASE", RELEASE).replace(HOST, "fake")
            )
            result = switching.play(playbook, *shlex.split(here))
            assert result.code == 0, f"{playbook} {options}\n{result.output}"
    assert switching.online == {0, 4}
    assert sorted(path.name for path in (tmp_path / "srv").iterdir()) == [
        *("fleet", "kernels", "preflight", "timing", "traces")
    ]
    names = sorted(path.name for path in (tmp_path / "srv/timing/raw/fake").iterdir())
    assert names == ["01-before.jsonl", "02-after.jsonl"]
    runs = [(tmp_path / f"srv/timing/raw/fake/{name}").read_text().splitlines()[0] for name in names]
    releases = [json.loads(run)["host"]["kernel_release"] for run in runs]
    assert releases == [DEFAULT_RELEASE, RELEASE]
    assert switching.get("proc/sys/kernel/osrelease") == DEFAULT_RELEASE


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", ["compare-two-kernels", "clocks-of-hosts"])
def test_a_page_with_variables_in_a_file_runs_as_it_stands(host: FakeLpar, tmp_path: Path, page: str) -> None:
    """In the order of the page. Four boots are timed, or two audits have two files each."""
    become_server(host)
    for given in ("ab_variants", "ab_results_dir", "clocks_results_dir"):
        host.variables.pop(given, None)
    text = (PAGES / f"{page}.md").read_text()
    found = re.search(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    srv = tmp_path / "srv"
    here = re.sub(r"/srv/kernels/(\w+)/artifact.json", lambda name: str(host.artifact(name[1])), found[1])
    (host.work / "page.json").write_text(here.replace("/srv/", f"{srv}/"))
    for playbook, options in commands_of(text):
        words = shlex.split(options.replace("/srv/", f"{srv}/").replace("@vars", "@page"))
        result = host.play(playbook, *words)
        assert result.code == 0, f"{playbook} {options}\n{result.output}"
    assert len([path for path in srv.rglob("*.jsonl") if path.parent.parent.name == "raw"]) == 4


def test_their_variables_are_ones_that_something_reads() -> None:
    named = set(re.findall(r"-e (\w+)=", TEXT))
    read = "".join(path.read_text() for path in (ANSIBLE / "playbooks").glob("*.yml"))
    for path in (ANSIBLE / "roles").glob("*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(path.read_text())["argument_specs"].values():
            read += " ".join(["", *spec.get("options", {})])
    assert len(named) > 8
    assert {name for name in named if not re.search(rf"\b{name}\b", read)} == set()


def test_every_reason_is_in_its_table() -> None:
    """By a word of each: a reason that is added to the judgement needs a row, or a place in one."""
    source = (REPO / "tools/host/hotplug_host/preflight/judge.py").read_text()
    text = (PAGES / "preflight.md").read_text()
    table = text.partition("| verdict | reason |")[2].partition("\n\n")[0]
    words = {
        "_held": "lock",
        "_kexec": "kexec",
        "_clocksource": "clocksource",
        "_timing": "room",
        "_installing": "room in `/boot`",
        "_expediting": "rcu_normal",
        "_smt": "SMT level",
        "_disturbed_tasks": "SCHED_DEADLINE",
        "_disturbed_cpusets": "cpusets",
        "_isolated": "isolcpus",
        "_slow": "one by one",
        "_fallback": "watchdog",
        "_installed": "after a panic",
        "_unsigned_installed": "secure boot",
        "_drivers": "kernel's configuration lacks",
        "_services": "smtstate.service",
        "_dumps": "leave no dump",
        "_udev": "a rule of udev",
    }
    judged = set(re.findall(r"yield from (_\w+)\(", source))
    assert judged == set(words)
    for word in words.values():
        assert word in table
