"""How kbuild compiles single files with W=1 and sparse, and what its output tells.

This file is part of what kept findings depend on: only what decides them belongs here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_qualify.patches.findings import Finding

FINDING = re.compile(r"^(?P<file>\S+?):\d+:(?:\d+:)? (?P<text>(?:warning|error): .*)$", re.MULTILINE)
# kbuild compiles any file it is asked for by name, with nearly the flags it would have, whatever the
# configuration holds. So it has to tell as well whether the file is one of those it would compile by itself:
# in the place where it marks modules when it tells what it does.
MARK = (
    "quiet_modtag=$(if $(filter $@,$(real-obj-y) $(real-obj-m) $(lib-y) $(extra-y) $(always-y)),listed,other)"
)
COMPILES = re.compile(r"^  (?:CC|AS) (?P<mark>listed|other)  (?P<object>\S+)$", re.MULTILINE)
NO_RULE = re.compile(r"No rule to make target '(?:\./)?(?P<object>\S+)'")
# One file that patches touch is part of KASAN. Instrumenting every other file for it would only cost time.
UNINSTRUMENTED = "KASAN_SANITIZE=n"
SPARSE = Path(__file__).with_name("sparse-report.sh")


@dataclass(frozen=True)
class Compiled:
    """What came of compiling objects in one configuration.

    `listed` are those that the configuration has, `failed` those of them that did not compile, or that make
    did not come to.
    """

    findings: frozenset[Finding]
    listed: frozenset[str]
    failed: frozenset[str]


def arguments(kbuild: str, objects: Sequence[str]) -> list[str]:
    """Return make's arguments that compile objects, as many as will."""
    targets = sorted(target_of(kbuild, name) for name in objects)
    return ["-k", "W=1", "C=2", f"CHECK={SPARSE}", MARK, UNINSTRUMENTED, *targets]


def read(output: str, objects: frozenset[str], tree: Path, folder: Path) -> Compiled:
    """Read make's output; `folder` is the object directory."""
    marks = {os.path.normpath(match["object"]): match["mark"] for match in COMPILES.finditer(output)}
    listed = {name for name in objects if marks.get(name) == "listed"}
    without_rule = {os.path.normpath(match["object"]) for match in NO_RULE.finditer(output)}
    failed = {name for name in listed if not (folder / name).exists()}
    # Neither compiled nor refused: make did not come that far.
    failed |= objects - marks.keys() - without_rule
    found = frozenset(
        Finding(os.path.relpath(match["file"], tree), match["text"]) for match in FINDING.finditer(output)
    )
    return Compiled(found, frozenset(listed), frozenset(failed))


def is_for(kbuild: str, name: str) -> bool:
    """Whether a file or an object is this architecture's (as kbuild calls it), or everybody's."""
    return not name.startswith("arch/") or name.startswith(f"arch/{kbuild}/")


def target_of(kbuild: str, name: str) -> str:
    """Return kbuild's name of an object: that of every KVM is reached through the architecture's."""
    return f"arch/{kbuild}/kvm/../../../{name}" if name.startswith("virt/kvm/") else name


def units_of(tree: Path, file: str) -> list[str]:
    """Return the files that are compiled for `file`: itself, or those that include it, as kernel/sched does.

    They lie in its folder, or in the one above.

    Headers have none: what they break shows in the sources a patch changes with them, or in vmlinux.
    """
    if not file.endswith((".c", ".S")):
        return []
    path = tree / file
    including = []
    for folder in (path.parent, path.parent.parent):
        name = re.escape(str(path.relative_to(folder)))
        line = re.compile(rf'^#\s*include "{name}"', re.MULTILINE)
        including += [other for other in folder.glob("*.c") if line.search(other.read_text())]
    return [str(other.relative_to(tree)) for other in including] or [file]


def objects_of(tree: Path, files: Sequence[str]) -> dict[str, set[str]]:
    """Return the objects that source files end up in, and the files of each."""
    objects: dict[str, set[str]] = {}
    for file in files:
        for unit in units_of(tree, file):
            objects.setdefault(str(Path(unit).with_suffix(".o")), set()).add(file)
    return objects
