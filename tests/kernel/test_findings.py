"""Findings that are kept: found again for the very same input, and for nothing else."""

import subprocess
from pathlib import Path

import pytest

from tests.kernel import findings
from tests.kernel.findings import Finding

FOUND = {Finding("kernel/cpu.c", "warning: one"), Finding("kernel/cpu.c", "warning: another")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A git tree with one file."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "cpu.c").write_text("int cpu;\n")
    git(tree, "init", "--quiet")
    commit(tree)
    return tree


def git(tree: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", "-C", str(tree), *identity, *words], check=True, capture_output=True)


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "state")


def test_a_state_is_what_is_in_the_files(tree: Path) -> None:
    first = findings.state_of(tree)
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "the same files")
    assert findings.state_of(tree) == first
    (tree / "cpu.c").write_text("int cpus;\n")
    commit(tree)
    assert findings.state_of(tree) not in (first, None)


@pytest.mark.parametrize("name", ["cpu.c", "new.c"])
def test_a_changed_tree_has_no_state(tree: Path, name: str) -> None:
    (tree / name).write_text("int bait;\n")
    assert findings.state_of(tree) is None


def test_each_input_makes_another_key(tmp_path: Path) -> None:
    recipe = tmp_path / "debug.config"
    recipe.write_text("CONFIG_LOCKDEP=y\n")
    keys = [
        findings.key("state", ["a.c", "b.c"], ["git"], [recipe]),
        findings.key("other", ["a.c", "b.c"], ["git"], [recipe]),
        findings.key("state", ["a.c"], ["git"], [recipe]),
        findings.key("state", ["a.c", "b.c"], ["git", "python3"], [recipe]),
        findings.key("state", ["a.c", "b.c"], ["git"], []),
    ]
    recipe.write_text("CONFIG_LOCKDEP=n\n")
    keys.append(findings.key("state", ["a.c", "b.c"], ["git"], [recipe]))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("found", [FOUND, set()])
def test_what_is_kept_is_found_again(tmp_path: Path, found: set[Finding]) -> None:
    file = tmp_path / "findings/key.json"
    assert findings.kept(file) is None
    findings.keep(file, found)
    assert findings.kept(file) == found
    assert [path.name for path in file.parent.iterdir()] == ["key.json"]


@pytest.mark.parametrize("text", ["", "[{", '[{"file": 1}]', "7"])
def test_what_cannot_be_read_is_not_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.json").write_text(text)
    assert findings.kept(tmp_path / "key.json") is None
