"""Kernel code taken out of patches."""

from pathlib import Path

import pytest

from clock_harness import sources
from hotplug_common.kernel import series
from hotplug_common.kernel.series import Patch
from hotplug_host.errors import ExitCode, ToolError

CREATES = """\
Subject: [PATCH] time: Add a file

---
 kernel/new.c | 3 +++
 1 file changed, 3 insertions(+)

diff --git a/kernel/new.c b/kernel/new.c
new file mode 100644
index 0000000..1111111
--- /dev/null
+++ b/kernel/new.c
@@ -0,0 +1,3 @@
+int new;
+
+/* the end */
"""
CHANGES = """\
Subject: [PATCH] x86: Change a file

---
diff --git a/arch/old.h b/arch/old.h
index 0000000..1111111 100644
--- a/arch/old.h
+++ b/arch/old.h
@@ -1,2 +1,8 @@
 before
+#define LIMIT 5
+
+int added(int a)
+{
+	return a < LIMIT;
+}
+
 after
"""
SIGNATURE = "-- \n2.39.5\n"


def patch(text: str) -> Patch:
    return Patch("0001-made-up.patch", Path("0001-made-up.patch"), text.encode())


@pytest.mark.parametrize("end", ["", SIGNATURE], ids=["end of file", "signature"])
def test_a_created_file_is_whole(end: str) -> None:
    text = sources.added_file([patch(CHANGES), patch(CREATES + end)], "kernel/new.c")
    assert text == "int new;\n\n/* the end */\n"


@pytest.mark.parametrize(
    "patches", [[], [CHANGES], [CREATES, CREATES]], ids=["nothing", "changed only", "twice"]
)
def test_a_file_that_is_not_the_work_of_one_patch_is_refused(patches: list[str]) -> None:
    with pytest.raises(ToolError, match="not the work of one patch") as caught:
        sources.added_file([patch(text) for text in patches], "kernel/new.c")
    assert caught.value.code == ExitCode.INPUT


def test_a_changed_file_is_not_taken_for_a_created_one() -> None:
    with pytest.raises(ToolError, match="not the work of one patch"):
        sources.added_file([patch(CHANGES)], "arch/old.h")


DEVICES = """\
Subject: [PATCH] clockevents: Change a file

---
diff --git a/kernel/time/clockevents.c b/kernel/time/clockevents.c
index 0000000..1111111 100644
--- a/kernel/time/clockevents.c
+++ b/kernel/time/clockevents.c
@@ -1,2 +1,8 @@
 before
+#define CEV_MAX_ADJ_SHIFT\t3
+
+static u32 cev_base_mult(const struct clock_event_device *dev,
+\t\t\t u32 *shift)
+{
+\tif (dev->mult) {
+\t\treturn 1;
+\t}
+}
+
+static void cev_adjust(void)
+{
+\tcev_base_mult(dev);
+}
 after
"""


def test_definitions_are_taken_whole() -> None:
    code = sources.adjust_code([patch(CHANGES), patch(DEVICES)])
    assert code.splitlines()[0] == "#define CEV_MAX_ADJ_SHIFT\t3"
    assert code.count("\n}\n") == 2
    assert "before" not in code


@pytest.mark.parametrize("texts", [[CHANGES], [DEVICES, DEVICES]], ids=["not there", "twice"])
def test_definitions_that_are_not_there_once_are_refused(texts: list[str]) -> None:
    with pytest.raises(ToolError, match=r"CEV_MAX_ADJ_SHIFT is defined [02] times") as caught:
        sources.adjust_code([patch(text) for text in texts])
    assert caught.value.code == ExitCode.INPUT


def test_the_series_holds_what_the_harness_compiles(root: Path) -> None:
    code = sources.kernel_code(series.load(root / "kernel-patches", "6.12", series.PATCHED))
    assert "u32 combined_counter_read(" in code[sources.HELPER]
    assert "struct combined_counter {" in code[sources.HELPER_HEADER]
    assert "u64 pvclock_advance(" in code[sources.PVCLOCK]
