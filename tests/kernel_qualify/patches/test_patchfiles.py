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


DIFF = """\
Subject: [PATCH] cpu: Change

---
diff --git a/kernel/cpu.c b/kernel/cpu.c
--- a/kernel/cpu.c
+++ b/kernel/cpu.c
@@ -1,2 +3,4 @@ static int above_the_hunk(unsigned int cpu,
 \tcalled(cpu);
-static void gone(void)
+\tif (called_too(cpu))
 int __ref stays(unsigned int cpu)
@@ -9 +9 @@ struct no_function {
+static struct step *
+comes(void)
+void declared(void);
diff --git a/Documentation/cpu.rst b/Documentation/cpu.rst
--- a/Documentation/cpu.rst
+++ b/Documentation/cpu.rst
@@ -1 +1 @@
+The text of(it
"""


def test_the_functions_that_a_patch_changes_or_adds(tmp_path: Path) -> None:
    (tmp_path / "0001.patch").write_text(DIFF)
    assert PatchFile("topic/line", tmp_path / "0001.patch").functions == {"above_the_hunk", "stays", "comes"}


@pytest.mark.parametrize("line", ["6.12", "7.3"])
def test_the_functions_of_the_series_are_found(line: str) -> None:
    found = {name for patch in patchfiles.line_patches(PATCHES, line) for name in patch.functions}
    assert {"takedown_cpus", "cpuhp_thread_fun", "sched_cpu_deactivate", "rtas_stop_self"} <= found
    assert not {"schedule", "wake_up_process", "cpu_online"} & found
