"""Finding the patch that changed how long a switch takes: the steps, and the judgement of one."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ansible.test_ab import OWNER, assert_fails
from tests.ansible.test_build import calls, lpar_lab
from tests.ansible.test_guides import blocks
from tests.fakes.fake_lpar import ANSIBLE, BIN, FakeLpar
from tests.samples.gittrees import GitTree

SCRIPT = ANSIBLE / "bisect.sh"
#: Writes the verdict of a step as the file `answers` has it, and notes the step and how it was called.
PLAYBOOK = """#!{python}
import json, os, sys
from pathlib import Path
given = dict(word.split("=", 1) for word in sys.argv if word.startswith("bisect_"))
work = Path({work!r})
with (work / "steps").open("a") as steps:
    steps.write(given["bisect_step"] + "\\n")
called = {{**given, "cwd": os.getcwd()}}
(work / "called").write_text(json.dumps(called))
verdicts = Path(given["bisect_dir"]) / "verdicts"
verdicts.mkdir(exist_ok=True)
answer = json.loads((work / "answers").read_text())[int(given["bisect_step"])]
if not answer:
    sys.exit(2)
(verdicts / given["bisect_step"]).write_text(answer)
"""


def bisect(tmp_path: Path, answers: str, *arguments: str, **environment: str) -> tuple[int, str, list[int]]:
    """Bisect a series whose steps behave as the letters say; return exit code, output and the steps taken."""
    words = {"o": "old", "n": "new", "s": "skip", "x": ""}
    (tmp_path / "answers").write_text(json.dumps([words[letter] for letter in answers]))
    (tmp_path / "steps").write_text("")
    book = tmp_path / "ansible-playbook"
    book.write_text(PLAYBOOK.format(python=sys.executable, work=str(tmp_path)))
    book.chmod(0o755)
    done = subprocess.run(
        [SCRIPT, *arguments] if arguments else [SCRIPT, tmp_path / "walk", "0", str(len(answers) - 1)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{BIN}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment},
    )
    steps = [int(step) for step in (tmp_path / "steps").read_text().split()]
    return done.returncode, done.stdout + done.stderr, steps


def test_the_patch_that_changed_it_is_found_and_no_step_is_taken_twice(tmp_path: Path) -> None:
    code, said, steps = bisect(tmp_path, "ooooonnnn")
    assert code == 0, said
    assert "is the first after commit" in said
    assert "\n    5 patches" in said
    assert len(steps) == len(set(steps)) == 3
    # An inventory may be named relative to where it was called.
    assert json.loads((tmp_path / "called").read_text())["cwd"] == str(tmp_path)
    code, said, steps = bisect(tmp_path, "ooooonnnn")
    assert (code, steps) == (0, [])
    assert "\n    5 patches" in said


@pytest.mark.slow
def test_a_step_that_tells_nothing_is_skipped(tmp_path: Path) -> None:
    code, said, steps = bisect(tmp_path, "oosnn")
    assert 2 in steps
    assert "There are only 'skip'ped commits left to test" in said
    assert code != 0


@pytest.mark.slow
def test_a_step_that_could_not_be_measured_ends_it_and_is_taken_again(tmp_path: Path) -> None:
    code, said, _ = bisect(tmp_path, "oxn")
    assert code != 0, said
    code, said, steps = bisect(tmp_path, "oon")
    assert (code, steps) == (0, [1]), said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("here", "0", "3"), "name the directory by its absolute path"),
        (("/srv/a b", "0", "3"), "has characters other than"),
        (("/srv/bisect", "3", "3"), "OLD and NEW are '3' and '3'"),
        (("/srv/bisect",), "OLD and NEW are '' and ''"),
        (("/srv/bisect", "--range", "/gone", "v1..v2"), "there is no folder '/gone'; name a git tree"),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    code, said, steps = bisect(tmp_path, "on", *arguments)
    assert (code, steps) == (2, [])
    assert words in said


@pytest.mark.slow
def test_a_directory_of_other_ends_is_refused(tmp_path: Path) -> None:
    assert bisect(tmp_path, "on")[0] == 0
    code, said, _ = bisect(tmp_path, "onn")
    assert code == 2
    assert "is of a bisection between other ends" in said


SUBJECTS = ["cpu: Look twice", "cpu: Wait for nobody", "cpu: Tidy up"]


@dataclass(frozen=True)
class Linux(GitTree):
    """A git tree with three commits on the lab's source, which is 6.12.1."""

    environment: dict[str, str]


@pytest.fixture
def linux(tmp_path: Path) -> Linux:
    tarball = tmp_path / "linux-6.12.1.tar.gz"
    made = Linux(
        GitTree.init(tmp_path / "linux").folder,
        {"XDG_CACHE_HOME": str(tmp_path / "cache"), "LPAR_LAB_SOURCE_URL": f"file://{tarball}"},
    )
    made.commit("Linux 6.12.1", Makefile="VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n", cpu="down\n")
    made.git("tag", "v6.12.1")
    made.git("archive", "--prefix", "linux/", "--output", str(tarball), "v6.12.1")
    made.environment["LPAR_LAB_SOURCE_SHA256"] = hashlib.sha256(tarball.read_bytes()).hexdigest()
    for number, subject in enumerate(SUBJECTS, start=1):
        made.commit(subject, cpu="down\n" * (number + 1))
    return made


def bisect_range(tmp_path: Path, linux: Linux, answers: str, span: str) -> tuple[int, str, list[int]]:
    walk = str(tmp_path / "walk")
    return bisect(tmp_path, answers, walk, "--range", str(linux.folder), span, **linux.environment)


@pytest.mark.slow
def test_the_commit_of_a_range_is_found_and_named(tmp_path: Path, linux: Linux) -> None:
    """With the real lpar-lab, which applies the commits to its source."""
    code, said, steps = bisect_range(tmp_path, linux, "oonn", "v6.12.1..topic")
    assert code == 0, said
    found = linux.git("log", "-1", "--format=%h %s", "topic~1")
    assert found.endswith(SUBJECTS[1])
    assert f"\n    2 patches: {found}" in said
    assert set(steps) <= {1, 2}

    called = json.loads((tmp_path / "called").read_text())
    ends = "..".join(linux.git("rev-parse", name) for name in ("v6.12.1^{commit}", "topic"))
    given = (called["bisect_line"], called["bisect_tree"], called["bisect_range"])
    assert given == ("6.12", str(linux.folder), ends)

    code, again, steps = bisect_range(tmp_path, linux, "oonn", "v6.12.1..topic")
    assert (code, steps) == (0, []), again

    refusal = f"{tmp_path}/walk is of a bisection between other ends; name another directory"
    code, said, steps = bisect_range(tmp_path, linux, "oonn", "v6.12.1..topic~1")
    assert (code, steps) == (2, [])
    assert refusal in said
    code, said, steps = bisect(tmp_path, "oonn")
    assert (code, steps) == (2, [])
    assert refusal in said


@pytest.mark.slow
def test_the_commands_of_its_page_run(tmp_path: Path, linux: Linux) -> None:
    """With the source and the range of this test, and with steps that are judged without a host."""
    patches, commits = (shlex.split(command) for command in blocks("bisect", "sh"))
    assert Path(patches[0]).name == Path(commits[0]).name == SCRIPT.name
    here = {"/srv/linux": str(linux.folder), "v6.12.90..topic": "v6.12.1..topic"}
    for number, (command, answers) in enumerate(((patches, "o" * 5 + "n" * 8), (commits, "oonn"))):
        words = [here.get(word, word) for word in command[1:]]
        words[0] = str(tmp_path / f"walk{number}")
        code, said, _ = bisect(tmp_path, answers, *words, **linux.environment)
        assert code == 0, said
        assert f"\n    {answers.index('n')} patches" in said


@pytest.mark.slow
def test_a_range_that_is_no_series_for_the_lab_is_refused_in_one_line(tmp_path: Path, linux: Linux) -> None:
    """Before the directory is made; the reader of commits has tests of its own."""
    linux.git("checkout", "--quiet", "-b", "later", "topic~1")
    linux.commit("On what the lab has not", cpu="up\n")
    refused = {
        "v6.12.1": (2, "the range is 'v6.12.1'; give OLD..NEW"),
        "v6.12.1..v6.12.1": (4, "v6.12.1..v6.12.1 is empty; name the newer end last"),
        "later~1..later": (
            4,
            "0001-On-what-the-lab-has-not.patch (patch 1 of 1) does not apply to 6.12 (6.12.1)",
        ),
    }
    for span, (wanted, words) in refused.items():
        code, said, steps = bisect_range(tmp_path, linux, "on", span)
        assert (code, steps) == (wanted, []), said
        assert "error: " in said.splitlines()[-1]
        assert words in said.splitlines()[-1]
    assert not (tmp_path / "walk").exists()


def test_a_step_in_check_mode_builds_and_measures_nothing(host: FakeLpar) -> None:
    tool = lpar_lab(host, "6.12-patched", "tar")
    del host.variables["ab_variants"]

    result = host.play(
        "bisect.yml",
        "--check",
        "--limit",
        "fake",
        bisect_dir=str(host.work),
        bisect_old=0,
        bisect_new=4,
        bisect_step=2,
        bisect_tool=str(tool),
    )

    assert result.code == 0, result.output
    assert "would build" in result.flat
    assert f"patches with {tool} build-kernel" in result.flat
    assert calls(host) == []


@pytest.mark.slow
def test_a_step_on_one_host_builds_its_kernels(host: FakeLpar) -> None:
    """The host refuses them, so that nothing is measured here."""
    tool = lpar_lab(host, "6.12-patched", "tar")
    del host.variables["ab_variants"]
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))
    step = {"bisect_dir": str(host.work), "bisect_old": 0, "bisect_new": 4, "bisect_step": 2}

    commits = {"bisect_tree": "/srv/linux", "bisect_range": "v6.12..topic"}
    result = host.play("bisect.yml", "--limit", "fake", **step, **commits, bisect_tool=str(tool))

    assert_fails(result, "root@desk has been using this host since")
    assert [call[call.index("--patches") + 1] for call in calls(host)] == ["0", "4", "2"]
    assert [call[call.index("--commits") + 1 :][:2] for call in calls(host)] == [[*commits.values()]] * 3


@pytest.mark.slow
def test_a_step_that_was_measured_is_judged(host: FakeLpar) -> None:
    """By the real comparison, of what three kernels left in two boots of each."""
    results = host.work / "steps/2/raw/fake"
    seconds = {"old": 9.0, "new": 1.0, "step": 1.0}
    for number, variant in enumerate([*seconds, *reversed(seconds)], start=1):
        host.put("proc/sys/kernel/osrelease", variant)
        host.put("proc/sys/kernel/random/boot_id", str(uuid.uuid4()))
        host.put("seconds.json", json.dumps({variant: seconds[variant]}))
        host.time(results / f"{number:02}-{variant}.jsonl", variant, iterations=6)
    playbook = host.work / "judge.yml"
    playbook.write_text(
        "- hosts: smt_hosts\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.include_role: {name: ab, tasks_from: bisect_judge}\n"
    )

    result = host.play(str(playbook), bisect_dir=str(host.work), bisect_step=2)

    assert result.code == 0, result.output
    assert (host.work / "verdicts/2").read_text() == "new\n"
    assert "2 patches: new (smt=off: faster against the old end, no difference shown against" in result.flat
