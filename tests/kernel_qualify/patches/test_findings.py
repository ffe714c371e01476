"""Findings that are kept: found again for the very same input, and for nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common.kernel.series import Patch
from kernel_qualify.patches import findings
from kernel_qualify.patches.findings import Finding

FOUND = frozenset({Finding("kernel/cpu.c", "warning: one"), Finding("kernel/cpu.c", "warning: another")})


CONTENT = b"Subject: [PATCH] cpu: Change\n\nWhy.\n---\n cpu.c | 1 +\n\ndiff --git a/cpu.c b/cpu.c\n+x\n"
PATCH = Patch("a", Path("a"), CONTENT)


def with_change(old: bytes, new: bytes) -> Patch:
    return replace(PATCH, content=CONTENT.replace(old, new))


def test_a_state_is_what_is_in_the_files() -> None:
    first = findings.state("source", [PATCH])
    assert findings.state("source", [with_change(b"Why.", b"Because.")]) == first
    others = [
        findings.state("another source", [PATCH]),
        findings.state("source", []),
        findings.state("source", [PATCH, PATCH]),
        findings.state("source", [with_change(b"+x", b"+y")]),
        findings.state("source", [with_change(b"a/cpu.c", b"a/new.c")]),
    ]
    assert len({first, *others}) == 1 + len(others)


def test_each_input_makes_another_key() -> None:
    recipe = "CONFIG_LOCKDEP=y\n"
    keys = [
        findings.key("state", ["a.c", "b.c"], ["git"], [recipe]),
        findings.key("other", ["a.c", "b.c"], ["git"], [recipe]),
        findings.key("state", ["a.c"], ["git"], [recipe]),
        findings.key("state", ["a.c", "b.c"], ["git", "python3"], [recipe]),
        findings.key("state", ["a.c", "b.c"], ["git"], []),
    ]
    keys.append(findings.key("state", ["a.c", "b.c"], ["git"], ["CONFIG_LOCKDEP=n\n"]))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("found", [FOUND, frozenset()])
def test_what_is_kept_is_found_again(tmp_path: Path, found: frozenset[Finding]) -> None:
    file = tmp_path / "findings/key.json"
    assert findings.kept(file) is None
    findings.keep(file, found)
    assert findings.kept(file) == found
    assert [path.name for path in file.parent.iterdir()] == ["key.json"]


@pytest.mark.parametrize("text", ["", "[{", '[{"file": 1}]', "7"])
def test_what_cannot_be_read_is_not_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.json").write_text(text)
    assert findings.kept(tmp_path / "key.json") is None
