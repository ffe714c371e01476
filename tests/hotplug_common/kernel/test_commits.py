"""Commits of a git tree as patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotplug_common.kernel import commits
from hotplug_host.errors import ExitCode, ToolError
from tests.samples.gittrees import GitTree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitTree:
    """Three commits on v1, and mails as somebody may have configured them."""
    (tmp_path / "gitconfig").write_text(
        "[format]\n\tcoverLetter = true\n\tattach = true\n\tnumbered = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    made = GitTree.init(tmp_path / "linux")
    made.commit("Linux", cpu="down\n")
    made.git("tag", "v1")
    for number, subject in enumerate(("cpu: Look twice", "cpu: Wait", "cpu: Tidy up"), start=2):
        made.commit(subject, cpu="down\n" * number)
    return made


def test_each_commit_is_a_patch_in_order_and_always_the_same(tree: GitTree) -> None:
    found = commits.read(tree.folder, "v1..topic")
    assert [patch.name for patch in found] == [
        *("0001-cpu-Look-twice.patch", "0002-cpu-Wait.patch", "0003-cpu-Tidy-up.patch")
    ]
    assert found == commits.read(tree.folder, "v1..topic")
    assert all(b"Subject: [PATCH] cpu: " in patch.content for patch in found)
    assert found[0].content.startswith(b"From 0000000000000000000000000000000000000000 ")
    assert commits.read(tree.folder, "topic~1..topic")[0].content != found[0].content


def test_a_hook_of_another_tree_changes_nothing(
    tree: GitTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = commits.read(tree.folder, "v1..topic")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another/.git"))
    assert commits.read(tree.folder, "v1..topic") == found


def test_what_is_no_range_or_no_series_is_one_line(tree: GitTree, tmp_path: Path) -> None:
    tree.git("checkout", "--quiet", "-b", "side", "v1")
    tree.commit("Another file", other="text\n")
    tree.git("checkout", "--quiet", "topic")
    tree.git("merge", "--quiet", "--no-edit", "side")
    tree.git("tag", "merged")
    tree.commit("Nothing")
    refused = {
        "v1...topic": (ExitCode.USAGE, "the range is 'v1...topic'"),
        "v1": (ExitCode.USAGE, "the range is 'v1'"),
        "v1..": (ExitCode.USAGE, "the range is 'v1..'"),
        "v1..gone": (ExitCode.USAGE, "has no commit 'gone'"),
        "--all..topic": (ExitCode.USAGE, "has no commit '--all'"),
        "v1..v1": (ExitCode.INPUT, "v1..v1 is empty"),
        "side..topic~4": (ExitCode.INPUT, "side..topic~4 is not linear: side is no ancestor of topic~4"),
        "v1..merged": (ExitCode.INPUT, "v1..merged is not linear: it has merges"),
        "merged..topic": (ExitCode.INPUT, "merged..topic has commits that change nothing"),
    }
    for span, (code, words) in refused.items():
        with pytest.raises(ToolError) as caught:
            commits.read(tree.folder, span)
        assert (caught.value.code, words in str(caught.value)) == (code, True), span
        assert caught.value.hint
    with pytest.raises(ToolError, match="has no commit 'a'"):
        commits.read(tmp_path, "a..b")
