"""The kernel code under test, taken out of the patches that add it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hotplug_timer.errors import ExitCode, ToolError
from lpar_lab.kernel.series import Patch

HELPER = "kernel/time/combined_counter.c"
HELPER_HEADER = "include/linux/combined_counter.h"
PVCLOCK = "arch/x86/kernel/pvclock_advance.h"
FILES = (HELPER, HELPER_HEADER, PVCLOCK)

_DIFF = re.compile(r"^diff --git a/(\S+) b/\S+\n(.*?)(?=^diff --git |^-- $|\Z)", re.MULTILINE | re.DOTALL)


def kernel_code(patches: Sequence[Patch]) -> dict[str, str]:
    """Return the files that the harness compiles of the kernel, by name.

    Raises ToolError (INPUT) when the patches do not hold one of them.
    """
    return {name: added_file(patches, name) for name in FILES}


def added_file(patches: Sequence[Patch], name: str) -> str:
    """Return a file that one patch creates and no other touches; else ToolError (INPUT)."""
    diffs = list(_diffs_of(patches, name))
    if len(diffs) != 1 or not diffs[0].startswith("new file mode"):
        raise ToolError(
            f"{name} is not the work of one patch, but of {len(diffs)}",
            "it has to be created whole, as the harness has no kernel to apply patches to",
            ExitCode.INPUT,
        )
    return "".join(_added_lines(diffs[0]))


def _diffs_of(patches: Sequence[Patch], name: str) -> Iterator[str]:
    for patch in patches:
        for found in _DIFF.finditer(patch.content.decode()):
            if found[1] == name:
                yield found[2]


def _added_lines(diff: str) -> Iterator[str]:
    """Yield what a diff adds, line by line, without its header."""
    _, _, hunks = diff.partition("\n@@")
    for line in hunks.splitlines(keepends=True)[1:]:
        if line.startswith("+"):
            yield line[1:]
