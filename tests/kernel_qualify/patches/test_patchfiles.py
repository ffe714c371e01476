"""What a patch says about the files that it creates."""

import subprocess
from pathlib import Path

import pytest

from hotplug_common.kernel import lines
from kernel_qualify.commands.selftests import SELFTESTS, SMT_CONTROL
from kernel_qualify.patches import patchfiles
from kernel_qualify.patches.patchfiles import PatchFile
from tests import ROOT

PATCHES = ROOT / "kernel-patches"
SMT_TEST = f"{SELFTESTS}/cpu-hotplug/{SMT_CONTROL}"
FILES = {"one": "+plus\n-minus\n\n @@ -0,0 +1,2 @@\n", "two/three": "last\n"}


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_the_content_of_a_new_file_comes_back(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "old").write_text("before\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "base")
    (tmp_path / "old").write_text("after\n")
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "new files")
    (tmp_path / "0001.patch").write_text(git(tmp_path, "format-patch", "--stdout", "-1"))
    patch = PatchFile("topic/line", tmp_path / "0001.patch")
    assert patch.created == list(FILES)
    assert {name: patch.content(name) for name in FILES} == FILES


def test_a_file_that_no_patch_creates_is_missed() -> None:
    with pytest.raises(LookupError, match=r"no patch of 6.12 creates kernel/cpu.c"):
        patchfiles.created_file(PATCHES, "6.12", "kernel/cpu.c")


@pytest.mark.parametrize("branch", lines.branches(PATCHES))
def test_a_branch_has_a_patch_only_where_it_differs_from_its_line(
    branch: str,
) -> None:
    of = lines.load(PATCHES, branch).of
    usual = {patch.name: patch for patch in patchfiles.line_patches(PATCHES, of)}
    here = patchfiles.line_patches(PATCHES, branch)
    order = list(usual)
    assert [order.index(patch.name) for patch in here] == sorted(order.index(patch.name) for patch in here)
    own = {patch.path for patch in here} & set(PATCHES.glob(f"*/{branch}/*.patch"))
    assert own == set(PATCHES.glob(f"*/{branch}/*.patch"))
    for patch in here:
        if patch.path in own:
            assert patch.subject == usual[patch.name].subject
            assert patch.path.read_bytes() != usual[patch.name].path.read_bytes()


def test_every_line_has_the_same_test_of_smt_control_and_bash_reads_it() -> None:
    (script,) = {patchfiles.created_file(PATCHES, line, SMT_TEST) for line in lines.names(PATCHES)}
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
