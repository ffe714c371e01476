"""The page about regressions, held against what it is about: its commands run, its variables are options."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from fake_lpar import ANSIBLE, BIN, REPO, FakeHost

SECTION = (
    (REPO / "docs/regression.md").read_text().partition("\n## Scheduled runs\n")[2].partition("\n## ")[0]
)
COMMANDS = re.findall(r"^(ansible-playbook|ansible/\S+) (.*)$", SECTION, re.MULTILINE)
VARIABLES = json.loads(SECTION.partition("```json\n")[2].partition("```")[0])


@pytest.mark.timeout(600)
def test_its_commands_run_as_they_stand_there(host: FakeHost, tmp_path: Path) -> None:
    """In their order, on one host, with the variables that stand there."""
    srv = tmp_path / "srv"
    for variant in host.variables.pop("ab_variants"):
        shutil.copytree(Path(variant["artifact"]).parent, srv / "kernels" / variant["name"])
    del host.variables["ab_results_dir"]
    (host.work / "regress.json").write_text(json.dumps(VARIABLES).replace("/srv/", f"{srv}/"))
    shutil.copy(host.work / "regress.json", srv / "regress.json")
    (srv / "hosts.yml").write_text("{}")
    units = host.root / "etc/systemd/system"
    units.mkdir(parents=True)
    host.variables |= {"schedule_unit_dir": str(units), "schedule_bin_dir": str(BIN)}
    ends = []
    for program, options in COMMANDS:
        words = shlex.split(
            re.sub(r"-i \S+ ", "", options).replace("/srv/", f"{srv}/").replace("bench", "root")
        )
        ours = words[0].removeprefix("playbooks/")
        if program == "ansible-playbook":
            result = host.play(ours, *words[1:])
        else:
            result = host.run([str(REPO / program), ours, *host.options(), *words[1:]])
        ends.append((program.rpartition("/")[2], ours, result.code))
        assert result.code in (0, 9), f"{program} {options}\n{result.output}"
    book = "ansible-playbook"
    assert ends == [
        (book, "regress.yml", 0),
        (book, "regress.yml", 0),
        # No history yet, and nothing that was not measured before.
        ("regress.sh", f"{srv}/regress", 9),
        (book, "schedule.yml", 0),
        (book, "schedule.yml", 0),
        (book, "schedule.yml", 0),
    ]
    assert len((srv / "regress/history/runs.jsonl").read_text().splitlines()) == 3
    (run,) = (srv / "regress/runs").iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run.name)
    assert [path.name for path in run.glob("raw/*")] == ["fake"]
    assert list(units.iterdir()) == []


def test_its_variables_are_options_and_no_option_is_left_out() -> None:
    named = set(re.findall(r"`((?:regress|schedule)_\w+)`", SECTION)) - {"schedule_host"}
    options: set[str] = set()
    for role in ("regress", "schedule"):
        specs = yaml.safe_load((ANSIBLE / f"roles/{role}/meta/argument_specs.yml").read_text())
        for spec in specs["argument_specs"].values():
            options |= set(spec["options"])
    # The units' directory is for the tests.
    assert named == options - {"schedule_unit_dir"}
    assert set(VARIABLES) <= options | {"ab_iterations"}
