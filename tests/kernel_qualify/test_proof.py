"""Proofs one after the other: problems, faults, what passed before, and what is left behind."""

import argparse
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common.kernel import lines
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify import proof
from kernel_qualify.proof import Ground, Passed, Proof, prove
from tests import ROOT

Find = Callable[[Ground], list[str]]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A project with patches of its own."""
    project = tmp_path / "project"
    for part in ("configs", "lines", "hotplug/6.12"):
        (project / "kernel-patches" / part).mkdir(parents=True)
    (project / "kernel-patches/configs/base.config").write_text("CONFIG_SMP=y\n")
    (project / "kernel-patches/lines/6.12.toml").write_text("topics = []\n")
    (project / "kernel-patches/hotplug/6.12/0001-a.patch").write_text("diff\n")
    return Paths(tmp_path / "cache", tmp_path / "state", project)


class Bench:
    """Proves in a folder, and remembers what was looked for."""

    def __init__(self, folder: Path, paths: Paths) -> None:
        self.paths = paths
        self.results = folder / "results"
        self.looked: list[str] = []

    def proof(self, name: str, problems: tuple[str, ...] = (), **facts: object) -> Proof:
        def find(ground: Ground) -> list[str]:
            self.looked.append(name)
            (ground.results / "log").write_text("well\n")
            return list(problems)

        return Proof(name, "6.12", facts, find, 60.0)

    def raising(self, name: str, error: Exception) -> Proof:
        def find(_: Ground) -> list[str]:
            self.looked.append(name)
            raise error

        return Proof(name, "6.12", {}, find, 60.0)

    def prove(self, *proofs: Proof, resume: bool = False) -> int:
        arguments = argparse.Namespace(output_dir=self.results, resume=resume)
        return prove(proofs, arguments, self.paths, lambda _line: None)

    def fails(self, *proofs: Proof, resume: bool = False) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.prove(*proofs, resume=resume)
        return caught.value


@pytest.fixture
def bench(tmp_path: Path, paths: Paths) -> Bench:
    return Bench(tmp_path, paths)


def test_what_passes_is_said_and_noted(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.prove(bench.proof("one"), bench.proof("two/part")) == ExitCode.OK
    assert capsys.readouterr().out == "one: passed in 0 s\ntwo/part: passed in 0 s\n"
    assert sorted(path.name for path in (bench.results / "passed").iterdir()) == ["one", "two-part"]
    assert (bench.results / "two/part/log").read_text() == "well\n"


def test_all_problems_are_printed_one_a_line(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    error = bench.fails(bench.proof("one", ("first", "second", "third")))
    assert error.code == ExitCode.OPERATION
    assert error.message == "one: 3 problem(s), the first: first"
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["problem: first", "problem: second", "problem: third"]
    assert not (bench.results / "passed").exists()


def test_a_failure_does_not_end_the_others(bench: Bench) -> None:
    lost = bench.raising("lost", ToolError("no guest", "look", ExitCode.GUEST))
    error = bench.fails(lost, bench.proof("bad", ("wrong",)), bench.proof("good"))
    assert bench.looked == ["lost", "bad", "good"]
    assert error.code == ExitCode.OPERATION
    assert "2 of 3 proofs failed: lost, bad" in error.message


def test_a_fault_alone_keeps_its_code_and_hint(bench: Bench) -> None:
    lost = bench.raising("lost", ToolError("no guest", "look", ExitCode.GUEST))
    error = bench.fails(bench.proof("good"), lost)
    assert (error.code, str(error)) == (ExitCode.GUEST, "lost: no guest; look")


def test_faults_without_problems_end_with_the_first_ones_code(bench: Bench) -> None:
    first = bench.raising("first", ToolError("late", code=ExitCode.TIMEOUT))
    second = bench.raising("second", ToolError("no guest", code=ExitCode.GUEST))
    assert bench.fails(first, second).code == ExitCode.TIMEOUT


@pytest.mark.parametrize("error", [KeyError("kind"), ValueError("not enough values"), IndexError("0")])
def test_records_that_cannot_be_judged_are_a_failure(bench: Bench, error: Exception) -> None:
    found = bench.fails(bench.raising("odd", error))
    assert found.code == ExitCode.OPERATION
    assert "cannot judge what came out" in found.message


def test_a_proof_that_takes_too_long_ends(bench: Bench) -> None:
    def find(_: Ground) -> list[str]:
        time.sleep(30)
        return []

    error = bench.fails(Proof("slow", "6.12", {}, find, 0.05))
    assert error.code == ExitCode.TIMEOUT


def test_what_has_passed_is_passed_over_with_resume_only(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    one = bench.proof("one", cores=2)
    bench.prove(one)
    bench.prove(one)
    assert bench.looked == ["one", "one"]
    capsys.readouterr()
    assert bench.prove(one, bench.proof("two"), resume=True) == ExitCode.OK
    assert bench.looked == ["one", "one", "two"]
    assert capsys.readouterr().out.startswith("one: passed at 20")


def test_resume_keeps_the_results_of_what_is_passed_over(bench: Bench) -> None:
    bench.prove(bench.proof("one"))
    bench.prove(bench.proof("one"), resume=True)
    assert (bench.results / "one/log").exists()


def test_what_failed_is_proven_again(bench: Bench) -> None:
    bench.prove(bench.proof("one"))
    bench.fails(bench.proof("one", ("wrong",)))
    bench.fails(bench.proof("one", ("wrong",)), resume=True)
    assert bench.looked == ["one"] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda patches: (patches / "configs/base.config").write_text("CONFIG_SMP=n\n"),
        lambda patches: (patches / "configs/more.config").write_text(""),
        lambda patches: (patches / "lines/6.12.toml").write_text("topics = ['clocks']\n"),
        lambda patches: (patches / "hotplug/6.12/0001-a.patch").write_text("other\n"),
        lambda patches: (patches / "hotplug/6.12/0002-b.patch").write_text("diff\n"),
    ],
    ids=["fragment", "new fragment", "line", "patch", "new patch"],
)
def test_a_change_of_the_patches_is_proven_again(bench: Bench, change: Callable[[Path], object]) -> None:
    bench.prove(bench.proof("one"))
    change(bench.paths.patches)
    bench.prove(bench.proof("one"), resume=True)
    assert bench.looked == ["one", "one"]


def test_a_change_of_an_option_is_proven_again(bench: Bench) -> None:
    bench.prove(bench.proof("one", cores=2))
    bench.prove(bench.proof("one", cores=4), resume=True)
    assert bench.looked == ["one", "one"]


def test_a_change_of_the_program_is_proven_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    shutil.copytree(proof.PROGRAM, program, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(proof, "PROGRAM", program)
    bench.prove(bench.proof("one"))
    with (program / "guest/stress.py").open("a") as script:
        script.write("# more\n")
    bench.prove(bench.proof("one"), resume=True)
    assert bench.looked == ["one", "one"]


def test_the_patches_of_another_line_do_not_matter(bench: Bench) -> None:
    bench.prove(bench.proof("one"))
    other = bench.paths.patches / "hotplug/7.3"
    other.mkdir()
    (other / "0001-a.patch").write_text("diff\n")
    bench.prove(bench.proof("one"), resume=True)
    assert bench.looked == ["one"]


def test_a_branch_has_the_patches_of_its_line(bench: Bench) -> None:
    patches = bench.paths.patches

    def digests() -> list[str]:
        proofs = [Proof("one", line, {}, lambda _: [], 1.0) for line in ("6.12", "6.12.0")]
        return [proof.digest(one, bench.paths) for one in proofs]

    (patches / "lines/6.12.toml").write_text("package = 'linux'\nsuites = []\ntopics = ['hotplug']\n")
    (patches / "lines/branches").mkdir()
    (patches / "lines/branches/6.12.0.toml").write_text("of = '6.12'\n")
    (patches / "hotplug/6.12.0").mkdir()
    line, branch = digests()
    (patches / "hotplug/6.12.0/0001-a.patch").write_text("other\n")
    same, another = digests()
    assert (same == line, another == branch) == (True, False)
    (patches / "hotplug/6.12/0001-a.patch").write_text("another\n")
    assert not {line, another} & set(digests())


def test_a_kernel_that_was_built_anew_is_proven_again(bench: Bench, tmp_path: Path) -> None:
    kernel = tmp_path / "artifact.json"
    kernel.write_text("{}")
    bench.prove(bench.proof("one", kernel=kernel))
    kernel.write_text('{"release": "other"}')
    bench.prove(bench.proof("one", kernel=kernel), resume=True)
    assert bench.looked == ["one", "one"]


@pytest.mark.parametrize("text", ["", "digest", "digest when seconds", "a b c d"])
def test_a_note_that_cannot_be_read_is_none(bench: Bench, text: str) -> None:
    one = bench.proof("one")
    proof.note(one, bench.results, Passed("digest", "now", 7))
    assert proof.noted(one, bench.results) == Passed("digest", "now", 7)
    proof.stamp(one, bench.results).write_text(text)
    assert proof.noted(one, bench.results) is None


def test_every_module_of_the_program_is_among_the_inputs(paths: Paths) -> None:
    assert (proof.PROGRAM / "guest/machine.py").exists()
    assert proof.PROGRAM == ROOT / "tools/kernel-qualify/kernel_qualify"
    first = proof.digest(Proof("one", "6.12", {}, lambda _: [], 1.0), paths)
    assert first != proof.digest(Proof("two", "6.12", {}, lambda _: [], 1.0), paths)


def test_the_projects_own_patches_are_inputs(paths: Paths) -> None:
    own = replace(paths, project=ROOT)
    for line in (*lines.names(own.patches), *lines.branches(own.patches)):
        assert proof.digest(Proof("one", line, {}, lambda _: [], 1.0), own)
