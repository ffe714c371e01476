"""The page about regressions, held against what it is about: its commands run, its variables are options."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.fakes.fake_lpar import ANSIBLE, BIN, REPO, FakeLpar, PlayResult

SECTION = (REPO / "docs/guides/operators/nightly-runs.md").read_text()
COMMANDS = re.findall(r"^(ansible-playbook|ansible-runner|ansible/\S+) (.*)$", SECTION, re.MULTILINE)
VARIABLES = json.loads(SECTION.partition("```json\n")[2].partition("```")[0])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_commands_run_as_they_stand_there(host: FakeLpar, tmp_path: Path) -> None:
    """In their order, on one host, with the variables that stand there."""
    srv = tmp_path / "srv"
    for variant in host.variables.pop("ab_variants"):
        shutil.copytree(Path(variant["artifact"]).parent, srv / "kernels" / variant["name"])
        host.packed(variant["name"])
    del host.variables["ab_results_dir"]
    host.variables["build_tool"] = str(host.build_tool())
    (host.work / "regress.json").write_text(json.dumps(VARIABLES).replace("/srv/", f"{srv}/"))
    shutil.copy(host.work / "regress.json", srv / "regress.json")
    (srv / "hosts.yml").write_text("{}")
    units = host.root / "etc/systemd/system"
    units.mkdir(parents=True)
    host.variables |= {"schedule_unit_dir": str(units), "schedule_bin_dir": str(BIN)}
    # The day may change meanwhile.
    host.variables["regress_run"] = "tonight"
    ends = []
    for program, options in COMMANDS:
        words = shlex.split(options.replace("/srv/", f"{srv}/").replace("bench", "root"))
        result = carry_out(host, program, words)
        ends.append((program.rpartition("/")[2], words[0], result.code))
        assert result.code in (0, 9), f"{program} {options}\n{result.output}"
    book = "ansible-playbook"
    assert ends == [
        *[(book, "playbooks/regress.yml", 0)] * 4,
        # No history yet, and nothing that was not measured before.
        ("regress.sh", f"{srv}/regress", 9),
        (book, "playbooks/schedule.yml", 0),
        (book, "playbooks/schedule.yml", 0),
        (book, "playbooks/schedule.yml", 0),
        ("ansible-runner", "run", 0),
    ]
    (job,) = (srv / "runner/artifacts").iterdir()
    assert ((job / "rc").read_text(), (job / "status").read_text()) == ("0", "successful")
    events = [json.loads(path.read_text()) for path in (job / "job_events").glob("*.json")]
    (stats,) = (event for event in events if event["event"] == "playbook_on_stats")
    assert stats["event_data"]["artifact_data"] == {"regress_exit_code": 9}
    assert stats["event_data"]["failures"] == {}
    assert len((srv / "regress/history/runs.jsonl").read_text().splitlines()) == 3
    assert len(list((srv / "regress/runs/tonight/raw/fake").iterdir())) == 3
    assert list(units.iterdir()) == []


def carry_out(host: FakeLpar, program: str, words: list[str]) -> PlayResult:
    """Run a command of the page, with this host's inventory and variables, and this checkout's folders."""
    inventory, *variables = host.options()[1:]
    if program == "ansible-runner":
        where = {"--project-dir": str(ANSIBLE), "--inventory": inventory}
        for option, value in where.items():
            words[words.index(option) + 1] = value
        words[words.index("--cmdline") + 1] += f" {shlex.join(variables)}"
        return host.run([str(BIN / program), *words])
    if "-i" in words:
        del words[words.index("-i") : words.index("-i") + 2]
    subject, *options = words
    if program == "ansible-playbook":
        return host.play(subject.removeprefix("playbooks/"), *options)
    return host.run([str(REPO / program), subject, "-i", inventory, *variables, *options])


def test_its_variables_are_options_and_the_reference_has_every_option() -> None:
    reference = (REPO / "docs/reference/role-options.md").read_text()
    named = set(re.findall(r"`((?:regress|schedule)_\w+)`", SECTION)) - {"schedule_host", "regress_exit_code"}
    options: set[str] = set()
    for role in ("ab", "schedule"):
        specs = yaml.safe_load((ANSIBLE / f"roles/{role}/meta/argument_specs.yml").read_text())
        for spec in specs["argument_specs"].values():
            options |= {name for name in spec["options"] if name.startswith(("regress_", "schedule_"))}
    # The units' directory is for the tests.
    assert (
        options - {"schedule_unit_dir"}
        == set(re.findall(r"`((?:regress|schedule)_\w+)`", reference)) & options
    )
    assert named <= options
    assert set(VARIABLES) <= options | {"ab_iterations"}
