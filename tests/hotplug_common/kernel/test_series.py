from pathlib import Path

import pytest

from hotplug_common.kernel import series, tree
from hotplug_common.kernel.series import Patch
from hotplug_host.errors import ExitCode, ToolError
from tests.samples.kernellines import write_branch, write_line

PATCH = """From 0000000000000000000000000000000000000001 Mon Sep 17 00:00:00 2001
From: A Developer <dev@example.org>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: [PATCH] {subject}

---
diff --git a/{file} b/{file}
--- a/{file}
+++ b/{file}
@@ -1 +1 @@
-{old}
+{new}
"""


def test_series_lists_names_in_order_without_comments() -> None:
    text = "# ours\n0001-first.patch\n\n  pending/0002-second.patch  # posted\n#0003-off.patch\n"
    assert series.parse(text) == ["0001-first.patch", "pending/0002-second.patch"]


@pytest.mark.parametrize("text", ["a.patch\na.patch\n", "../a.patch\n", "/a.patch\n", "a.patch b.patch\n"])
def test_a_broken_series_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ToolError, match=r"series:\d") as caught:
        series.parse(text)
    assert caught.value.code is ExitCode.INPUT


def test_stock_has_no_patches_and_patched_has_the_series(tmp_path: Path) -> None:
    folder = write_line(tmp_path, "6.12")
    (folder / "series").write_text("b.patch\na.patch\n")
    (folder / "a.patch").write_bytes(b"A")
    (folder / "b.patch").write_bytes(b"B")
    assert series.load(tmp_path, "6.12", "stock") == []
    loaded = series.load(tmp_path, "6.12", "patched")
    assert [(p.name, p.content) for p in loaded] == [("hotplug/b.patch", b"B"), ("hotplug/a.patch", b"A")]


def test_topics_follow_each_other_as_the_line_lists_them(tmp_path: Path) -> None:
    write_line(tmp_path, "6.12")
    line = tmp_path / "lines/6.12.toml"
    line.write_text(line.read_text().replace('["hotplug"]', '["hotplug", "clocks"]'))
    for topic in ("clocks", "hotplug"):
        folder = tmp_path / topic / "6.12"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "series").write_text("a.patch\n")
        (folder / "a.patch").write_bytes(topic.encode())
    assert [p.name for p in series.load(tmp_path, "6.12", "patched")] == ["hotplug/a.patch", "clocks/a.patch"]


def test_a_branch_has_what_differs_and_the_rest_of_its_line(tmp_path: Path) -> None:
    folder = write_line(tmp_path, "6.12")
    (folder / "series").write_text("a.patch\nb.patch\nc.patch\n")
    for name in "abc":
        (folder / f"{name}.patch").write_text(f"{name} of the line")
    write_branch(tmp_path, "6.12.0", "6.12")
    assert series.load(tmp_path, "6.12.0", "patched") == series.load(tmp_path, "6.12", "patched")

    own = folder.with_name("6.12.0")
    own.mkdir()
    (own / "series").write_text("a.patch\nc.patch\n")
    (own / "c.patch").write_text("c of the branch")
    assert [(p.name, p.path.parent, p.content) for p in series.load(tmp_path, "6.12.0", "patched")] == [
        ("hotplug/a.patch", folder, b"a of the line"),
        ("hotplug/c.patch", own, b"c of the branch"),
    ]
    (own / "series").write_text("gone.patch\n")
    with pytest.raises(ToolError, match=r"cannot read .*gone\.patch"):
        series.load(tmp_path, "6.12.0", "patched")


def test_an_experiment_is_a_variant_of_its_own_on_every_line(tmp_path: Path) -> None:
    folder = tmp_path / "experiments/slow-path"
    folder.mkdir(parents=True)
    (folder / "series").write_text("a.patch\n")
    (folder / "a.patch").write_bytes(b"A")
    (tmp_path / "experiments/notes").mkdir()
    assert series.variants(tmp_path) == ("stock", "patched", "slow-path")
    for line in ("6.12", "7.3"):
        assert [p.content for p in series.load(tmp_path, line, "slow-path")] == [b"A"]


@pytest.mark.parametrize("name", ["notes", "slow", "../6.12", "", "experiments/slow-path"])
def test_an_unknown_variant_is_refused_with_those_there_are(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "experiments/slow-path"
    folder.mkdir(parents=True)
    (folder / "series").write_text("a.patch\n")
    with pytest.raises(ToolError, match="choose one of stock, patched, slow-path") as caught:
        series.load(tmp_path, "6.12", name)
    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize(("listing", "code"), [(None, 4), ("", 4), ("gone.patch\n", 4)])
def test_a_missing_series_or_patch_is_an_input_fault(tmp_path: Path, listing: str | None, code: int) -> None:
    folder = write_line(tmp_path, "6.12")
    if listing is not None:
        (folder / "series").write_text(listing)
    with pytest.raises(ToolError) as caught:
        series.load(tmp_path, "6.12", "patched")
    assert caught.value.code == code


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernel/cpu.c").write_text("one\n")
    (folder / "kernel/same.c").write_text("same\n")
    (folder / ".gitignore").write_text("*.ignored\n")
    (folder / "kept.ignored").write_text("shipped though ignored\n")
    tree.import_tree(folder)
    return folder


def patch(folder: Path, name: str, old: str, new: str, file: str = "kernel/cpu.c") -> Patch:
    path = folder.parent / name
    path.write_text(PATCH.format(subject=name, file=file, old=old, new=new))
    return Patch(name, path, path.read_bytes())


def test_patches_apply_in_order_and_stock_comes_back(source: Path) -> None:
    both = [patch(source, "1.patch", "one", "two"), patch(source, "2.patch", "two", "three")]
    tree.prepare(source, both, "6.12")
    assert (source / "kernel/cpu.c").read_text() == "three\n"
    tree.prepare(source, [], "6.12")
    assert (source / "kernel/cpu.c").read_text() == "one\n"
    tree.prepare(source, both[:1], "6.12")
    assert (source / "kernel/cpu.c").read_text() == "two\n"


def test_switching_leaves_other_files_untouched_and_drops_litter(source: Path) -> None:
    before = (source / "kernel/same.c").stat().st_mtime_ns
    (source / "litter.o").write_text("")
    (source / "litter.ignored").write_text("")
    series_of_one = [patch(source, "1.patch", "one", "two")]
    for patches in (series_of_one, [], series_of_one):
        tree.prepare(source, patches, "6.12")
    assert (source / "kernel/same.c").stat().st_mtime_ns == before
    assert not (source / "litter.o").exists()
    assert not (source / "litter.ignored").exists()
    assert (source / "kept.ignored").exists()


def test_a_patch_that_does_not_apply_is_named_and_nothing_is_half_done(source: Path) -> None:
    bad = [patch(source, "1.patch", "one", "two"), patch(source, "2-late.patch", "nine", "ten")]
    with pytest.raises(ToolError) as caught:
        tree.prepare(source, bad, "6.12 (6.12.117)")
    assert caught.value.code is ExitCode.INPUT
    assert "2-late.patch (patch 2 of 2) does not apply to 6.12 (6.12.117)" in str(caught.value)
    assert "kernel/cpu.c" in str(caught.value)
    assert (source / "kernel/cpu.c").read_text() == "one\n"
    assert not (source / ".git/rebase-apply").exists()
    tree.prepare(source, bad[:1], "6.12")
    assert (source / "kernel/cpu.c").read_text() == "two\n"


def test_an_interrupted_apply_is_recovered_from(source: Path) -> None:
    (source / ".git/rebase-apply").mkdir()
    (source / ".git/index.lock").touch()
    tree.prepare(source, [patch(source, "1.patch", "one", "two")], "6.12")
    assert (source / "kernel/cpu.c").read_text() == "two\n"
