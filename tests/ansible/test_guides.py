"""The first pages for operators: their commands run as they are, on a fake host behind a stand-in for ssh."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hotplug_common import hostmodules
from hotplug_common.hostmodules import lock_owner
from hotplug_timer.bundle import build_script
from smt_fleet import unled
from smt_fleet.outcome import Verdict
from tests.ansible.test_ab import OWNER
from tests.fakes.fake_lpar import ANSIBLE, BIN, DEFAULT_RELEASE, REPO, ROOT_HERE, FakeLpar
from tests.samples.costfiles import costs_of

PAGES = REPO / "docs/guides/operators"


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language."""
    text = (PAGES / f"{page}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def stand_in(host: FakeLpar) -> Path:
    """Make stand-ins for ssh and scp; returns their folder, with a log of what ssh was asked."""
    folder = host.work / "stand-ins"
    folder.mkdir()
    programs = {
        "ssh": f"""#!/bin/sh
[ "$1" != -t ] || shift
echo "$*" >> {folder}/log
shift
case "$1" in
    python3) shift; exec {host.root}/bin/python3 "$@" --sysroot {host.root} ;;
    cat) cat "{host.root}/$2" ;;
    rm) exec "$@" ;;
esac
""",
        "scp": '#!/bin/sh\nexec cp "${1#*:}" "${2#*:}"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def run(host: FakeLpar, commands: str, path: Path) -> tuple[int, str]:
    environment = host.environment()
    done = subprocess.run(
        [*ROOT_HERE, "bash", "-e", "-o", "pipefail", "-c", commands],
        env={**environment, "PATH": f"{path}{os.pathsep}{environment['PATH']}"},
        cwd=host.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def reached_as(host: FakeLpar, name: str, inventory: dict[str, object]) -> None:
    """Have an inventory's host reach the fake one, with short waits."""
    del host.variables["ab_variants"]
    hosts = {name: {**inventory, **host.variables, **host.remote()}}
    (host.work / f"{name}.yml").write_text(json.dumps({"smt_hosts": {"hosts": hosts}}))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_lpar_is_checked_timed_switched_and_put_back(switching: FakeLpar) -> None:
    (given,) = blocks("first-lpar", "yaml")
    reached_as(switching, "lpar1", yaml.safe_load(given)["smt_hosts"]["hosts"]["lpar1"])
    path = stand_in(switching)
    _, preflight, timing, switch, undo, *_ = blocks("first-lpar", "sh")
    output = switching.root / "stock.jsonl"
    timing = re.sub(r"/\S+/stock\.jsonl", str(output), timing)

    code, out = run(switching, preflight, path)
    assert code == 0, out
    assert "go" in out

    code, out = run(switching, timing, path)
    assert code == 0, out
    assert not output.exists()
    assert "smt=off" in out
    assert switching.online == set(range(8))

    code, out = run(switching, switch, path)
    assert code == 0, out
    assert switching.online == {0, 4}

    # What the night shift looks at, and goes on with: there is nothing left to do.
    for block in blocks("night-shift", "sh"):
        if "last" in block:
            code, out = run(switching, block, path)
            assert code == 0, out
            assert "ok" in out or "every host is as asked" in out

    # The fake kernel acts on what its ppc64_cpu writes, and misses the write of the rollback to smt/control.
    assert (switching.staging / "applied.json").exists()
    switching.write_control("on")
    code, out = run(switching, undo, path)
    assert code == 0, out
    assert switching.online == set(range(8))
    assert not (switching.staging / "applied.json").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fleet_is_checked_planned_changed_and_brought_back_as_its_page_tells(switching: FakeLpar) -> None:
    """At any time of the day, and without the wait after the first batch."""
    reached_as(switching, "mine", {})
    change, _costs, afterwards, _, plain = blocks("fleet", "sh")
    here = change.replace("inventory/mine", "mine.yml").replace("04:30", "2099-01-01T04:30")
    look, _, undo = afterwards.partition("smt-fleet rollback")
    path = stand_in(switching)

    code, out = run(switching, here.replace("--soak 15", "--soak 0") + look, path)

    assert code == 0, out
    assert "every host is as asked" in out
    assert switching.online == {0, 4}

    # As above: the fake kernel misses the write of the rollback.
    switching.write_control("on")
    code, out = run(switching, f"smt-fleet rollback{undo}", path)

    assert code == 0, out
    assert not (switching.staging / "applied.json").exists()
    assert re.search(r"^\| mine \|.*\| ok \|", out, re.MULTILINE), "the report is that of the rollback"

    for name, path_here in (
        ("/srv/smt", switching.work),
        ("inventory/mine", "mine.yml"),
        ("ansible/", f"{ANSIBLE}/"),
    ):
        plain = plain.replace(name, str(path_here))
    code, out = run(switching, plain, path)

    assert code == 0, out
    assert out.count("CHG42: 1 ok") == 2, "by the playbook, and by smt-fleet"


@pytest.mark.slow
def test_costs_are_measured_and_predicted_from_as_their_page_tells(
    switching: FakeLpar, tmp_path: Path
) -> None:
    """With kept costs in place of those of a fake host, whose kernel counts no durations."""
    predict, plan = blocks("predict", "sh")
    reached_as(switching, "lpar1", {})
    path = stand_in(switching)
    kept = costs_of(tmp_path / "kept", "lpar1", DEFAULT_RELEASE, 8)
    remote = tmp_path / "remote"
    remote.mkdir()
    programs = {
        # What the page measures is called costs or lpar1, in files beside one another.
        "ssh": f"""#!/bin/sh
[ "$4" = measure-costs ] || exit 9
stem=$(basename "$6" .jsonl)
sed "s/costs.cpus/$stem.cpus/" {kept} > {remote}/$6
for trace in {kept.parent}/*.xz; do cp "$trace" "{remote}/$(basename "$trace" | sed "s/^costs/$stem/")"; done
""",
        "scp": f"""#!/bin/sh
case "$2" in lpar1:) exec cp "$1" {remote} ;; esac
cd {remote} && exec cp ${{1#*:}} {switching.work}/$2
""",
    }
    for name, text in programs.items():
        (path / name).write_text(text)
    (switching.work / "costs").mkdir()

    code, out = run(switching, predict.removeprefix(". .venv/bin/activate\n"), path)

    assert code == 0, out
    assert (remote / "hotplug-timer.pyz").exists()
    assert "smt=off" in out

    _, with_costs, *_ = blocks("fleet", "sh")
    here = {"inventory/mine": "lpar1.yml", "04:30": "2099-01-01T04:30"}
    for name, instead in here.items():
        plan, with_costs = plan.replace(name, instead), with_costs.replace(name, instead)
    code, out = run(switching, plan, path)

    assert code == 0, out
    assert re.search(r"^lpar1 +\d+  costs  .*costs/lpar1\.jsonl: ", out, re.MULTILINE), out

    code, out = run(switching, with_costs, path)

    assert code == 0, out
    assert switching.online == {0, 4}


def test_the_first_page_has_at_most_five_steps() -> None:
    assert re.findall(r"^## (\d)\.", (PAGES / "first-lpar.md").read_text(), re.MULTILINE) == list("12345")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("word", ["smt-fleet check", "chsysstate"])
def test_the_night_shift_breaks_a_lock_by_its_token(switching: FakeLpar, word: str) -> None:
    """After a look at it, and after a power cycle, which is the stand-in's to ignore."""
    reached_as(switching, "INVENTORY", {})
    lock = {**OWNER, "token": "20261126T020000Z-7", "default": {}}
    switching.put("var/lib/hotplug-acceleration/lock.json", json.dumps(lock))
    path = stand_in(switching)
    (block,) = (block for block in blocks("night-shift", "sh") if word in block)
    here = block.replace("-i INVENTORY", "-i INVENTORY.yml").replace("--limit HOST", "--limit INVENTORY")

    if word == "smt-fleet check":
        look, here = here.splitlines()
        code, out = run(switching, look, path)
        assert code == 3
        assert "20261126T020000Z-7" in out

    code, out = run(switching, here.replace("=TOKEN", "=another"), path)
    assert code != 0
    assert (switching.staging / "lock.json").exists()

    code, out = run(switching, here.replace("TOKEN", "20261126T020000Z-7"), path)
    assert code == 0, out
    assert not (switching.staging / "lock.json").exists()


def test_the_night_shift_has_a_row_for_each_verdict() -> None:
    text = (PAGES / "night-shift.md").read_text()
    for verdict in Verdict:
        assert verdict is Verdict.RUNNING or f"`{verdict}`" in text


@pytest.mark.parametrize("page", ["first-lpar", "night-shift", "limits"])
def test_the_first_line_tells_that_powervm_is_missing(page: str) -> None:
    first = (PAGES / f"{page}.md").read_text().split("\n\n")[1]
    assert re.match(r"No (?:command|part) of this (?:page|project) has run on PowerVM", first)


def test_each_tag_has_a_row_with_what_a_playbook_names_in_its_place() -> None:
    (play,) = yaml.safe_load((ANSIBLE / "playbooks/have_hosts.yml").read_text())
    (ways,) = (found for task in play["tasks"] if (found := task.get("vars", {}).get("have_hosts_ways")))
    _, _, section = (PAGES / "limits.md").read_text().partition("## Tags\n")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE))
    assert list(rows) == ["check", "plan", "canary", "change", "verify", "rollback", "report", "notify"]
    assert list(ways) == list(rows)
    for tag, way in ways.items():
        # The program, or the option, that takes the tag's place.
        (use,) = re.findall(r"use (?:--check or )?((?:--)?[\w.-]+(?: (?:plan|report))?)", way)
        assert f"`{use}" in rows[tag], tag


SURVEY = json.loads((REPO / "docs/examples/awx/survey-switch.json").read_text())["spec"]


def options_of(*entries: tuple[str, str]) -> dict[str, dict[str, Any]]:
    """Return the options that entry points of roles have."""
    found: dict[str, dict[str, Any]] = {}
    for role, entry in entries:
        specs = yaml.safe_load((ANSIBLE / f"roles/{role}/meta/argument_specs.yml").read_text())
        found |= specs["argument_specs"][entry]["options"]
    return found


def test_the_survey_asks_for_options_of_the_roles() -> None:
    options = options_of(("smt", "switch"), ("fleet", "begin"), ("fleet", "end"))
    # The lock's owner has it, which is no option.
    options["fleet_change"] = {"type": "str"}
    assert lock_owner({"fleet_change": "CHG42"}, "root@lab").endswith("for CHG42")
    kinds = {"int": "integer", "str": "text"}
    for question in SURVEY:
        option = options.pop(question["variable"])
        if question["type"] == "multiplechoice":
            assert question["default"] in question["choices"]
        else:
            assert question["type"] == kinds[option["type"]]
    assert {name for name, option in options.items() if option.get("required")} == set()


@pytest.mark.slow
def test_what_the_survey_gives_is_taken(switching: FakeLpar) -> None:
    """AWX gives answers as they are typed: choices are text, also where they are numbers or booleans."""
    answers = {question["variable"]: question["default"] for question in SURVEY}
    result = switching.play("apply.yml", awx_job_id=7, awx_user_name="ann", **answers)
    assert result.code == 0, result.output
    assert switching.online == {0, 4}


def test_the_page_about_awx_names_variables_that_something_reads() -> None:
    text = (PAGES / "awx.md").read_text()
    named = set(re.findall(r"`((?:ab|build|deploy|fleet|preflight|regress|smt_switch)_[a-z_]+)[`:]", text))
    files = [*ANSIBLE.rglob("*.yml"), *(Path(str(module.__file__)) for module in (hostmodules, unled))]
    read = "".join(path.read_text() for path in files)
    assert len(named) > 12
    assert {name for name in named if not re.search(rf"\b{name}\b", read)} == set()


@pytest.mark.slow
def test_the_installed_file_does_what_the_limits_page_tells(switching: FakeLpar) -> None:
    (block,) = (block for block in blocks("limits", "sh") if "bundle" in block)
    here = block.replace("/usr/local/sbin", str(switching.root))
    code, out = run(switching, here, stand_in(switching))
    assert code == 0, out
    assert switching.online == {0, 4}


@pytest.mark.slow
def test_a_wheel_has_all_that_a_controller_without_a_checkout_needs(tmp_path: Path) -> None:
    """From the commands of the page, without the network: what it builds with and depends on is here."""
    (build,) = (block for block in blocks("first-lpar", "sh") if "pip wheel" in block)
    here = build.replace(" dist", f" {tmp_path}/dist").replace("pip wheel", "pip wheel --no-build-isolation")
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(["bash", "-e", "-c", here], check=True, cwd=REPO, env=environment, capture_output=True)
    built = sorted((tmp_path / "dist").iterdir())
    (install,) = (block for block in blocks("first-lpar", "sh") if "collection install" in block)
    assert len(built) == 2
    assert [path.name for path in built if f"dist/{path.name}" not in install] == []

    packages = tmp_path / "packages"
    words = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    wheels = [path for path in built if path.suffix == ".whl"]
    subprocess.run([str(BIN / "python"), *words, *map(str, wheels)], check=True, env=environment)
    done = subprocess.run(
        [str(BIN / "python"), "-m", "hotplug_timer.cli", "bundle", "--script"],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(packages)},
    )
    assert done.stdout == build_script()
