"""The kernel code under test, taken out of the patches that add it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hotplug_common.kernel.series import Patch
from hotplug_host.errors import ExitCode, ToolError

HELPER = "kernel/time/combined_counter.c"
HELPER_HEADER = "include/linux/combined_counter.h"
PVCLOCK = "arch/x86/kernel/pvclock_advance.h"
FILES = (HELPER, HELPER_HEADER, PVCLOCK)
CLOCKEVENTS = "kernel/time/clockevents.c"
ADJUST = ("CEV_MAX_ADJ_SHIFT", "cev_base_mult", "cev_adjust")
"""What tells a clock-event device the rate of the clock: a macro and functions, in this order."""

_DIFF = re.compile(r"^diff --git a/(\S+) b/\S+\n(.*?)(?=^diff --git |^-- $|\Z)", re.MULTILINE | re.DOTALL)


def kernel_code(patches: Sequence[Patch]) -> dict[str, str]:
    """Return the files that the harness compiles of the kernel, by name.

    Raises ToolError (INPUT) when the patches do not hold one of them.
    """
    return {name: added_file(patches, name) for name in FILES}


def adjust_code(patches: Sequence[Patch]) -> str:
    """Return what tells a clock-event device the rate of the clock; else ToolError (INPUT)."""
    added = "".join(line for diff in _diffs_of(patches, CLOCKEVENTS) for line in _added_lines(diff))
    return "\n".join(_definition(added, name) for name in ADJUST)


def _definition(code: str, name: str) -> str:
    """Return the one-line macro or the function that is called so."""
    macro = rf"^#define {name}\b[^\n]*\n"
    function = rf"^[a-z][^\n]*\b{name}\([^;{{]*\)\n\{{\n.*?^\}}\n"
    found = re.findall(f"(?:{macro})|(?:{function})", code, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise ToolError(
            f"{name} is defined {len(found)} times in what the patches add to {CLOCKEVENTS}",
            "it has to be added whole, as the harness has no kernel to apply patches to",
            ExitCode.INPUT,
        )
    return str(found[0])


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
