"""Whether the series fits a vendor's source, and which hotplug states would hinder it there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import scratch
from hotplug_common.arch import Arch
from hotplug_common.kernel import hostrules, lines, objects, origin, series, source
from hotplug_common.paths import Paths
from hotplug_common.tables import Column, Kind, Sheet, Table, print_tables
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import states, vendortree
from lpar_lab.states import State
from lpar_lab.vendortree import Applied, Fit


@dataclass(frozen=True)
class Request:
    """What is to be checked: a source, the variant, and the configuration that says what is built, if any."""

    tree: Path
    arch: Arch
    line: str | None
    variant: str
    config_from: str | None


def run(request: Request, style: str, paths: Paths, say: Say) -> int:
    """Check, and print; the exit code is INPUT where a patch does not apply.

    Raises ToolError as the readers of the source and of the configuration do.
    """
    with vendortree.opened(request.tree, paths, say) as tree, scratch.folder(paths.scratch, "apply") as work:
        version = source.read_kernel_version(tree / "Makefile")
        line = request.line or line_of(version, paths)
        patches = series.load(paths.patches, line, request.variant)
        applied = vendortree.apply(patches, tree, work)
        found = states.scan(tree, work, request.arch.kbuild)
        compiled = _compiled(request, tree, work, paths)
        sheet = _sheet(version, line, applied, found, compiled)
    print_tables(sheet, style, sys.stdout)
    return ExitCode.INPUT if any(one.fit is Fit.FAILS for one in applied) else ExitCode.OK


def line_of(version: str, paths: Paths) -> str:
    """Return the kernel line of a version, or its branch; ToolError (USAGE) where there is none."""
    plain = version.partition("-")[0]
    if plain in lines.branches(paths.patches):
        return plain
    name = ".".join(plain.split(".")[:2])
    known = lines.names(paths.patches)
    if name not in known:
        raise ToolError(
            f"the source is Linux {version}, and there is no line {name}",
            f"name the nearest with --line: {', '.join(known)}",
            ExitCode.USAGE,
        )
    return name


def _compiled(request: Request, tree: Path, work: Path, paths: Paths) -> frozenset[str] | None:
    """Return the files that the configuration compiles; None where none is given."""
    if not request.config_from:
        return None
    given = origin.read_config(request.config_from, paths)
    hostrules.require_arch(given.text, request.arch, given.where)
    config = work / ".config"
    config.write_text(given.text)
    return objects.count(tree, config, request.arch.kbuild).sources


def _sheet(
    version: str,
    line: str,
    applied: Sequence[Applied],
    found: Sequence[State] | None,
    compiled: frozenset[str] | None,
) -> Sheet:
    fits = Counter(one.fit for one in applied)
    counts = ", ".join(f"{fits[fit]} {fit.value}" for fit in Fit)
    hindering = states.unmarked(found or (), compiled)
    of = "that the configuration builds" if compiled is not None else "of the architecture"
    total = len([one for one in found or () if compiled is None or one.file in compiled])
    said = (
        f"{len(hindering)} of {total} hotplug states with a teardown {of} are not marked for bulk offlining"
        if found is not None
        else "hotplug states are not listed: with these patches, kernel/cpu.c takes CPUs down one by one"
    )
    return Sheet(
        tables=(_patches(applied), _states(hindering)),
        lead=(f"{len(applied)} patches of line {line} on Linux {version}: {counts}", said),
        facts={
            "version": version,
            "line": line,
            "counts": {fit.value: fits[fit] for fit in Fit},
            "states": total,
            "marked_states": sorted({(one.name, one.teardown) for one in found or () if one.marked}),
        },
    )


def _patches(applied: Sequence[Applied]) -> Table[Applied]:
    return Table(
        "patches",
        (
            Column("patch", lambda one: one.patch, Kind.WORDS),
            Column("fit", lambda one: one.fit.value, Kind.WORDS),
            Column("where", lambda one: "; ".join(one.details) or "-", Kind.TEXT),
        ),
        applied,
        record=lambda one: {
            "patch": one.patch,
            "fit": one.fit.value,
            "missing": list(one.missing),
            "hunks": [vars(hunk) for hunk in one.hunks],
        },
        flat=lambda one: {"patch": one.patch, "fit": one.fit.value, "where": "; ".join(one.details)},
    )


def _states(hindering: Sequence[State]) -> Table[State]:
    return Table(
        "unmarked_states",
        (
            Column("state", lambda one: one.name, Kind.WORDS),
            Column("where", lambda one: f"{one.file}:{one.line}", Kind.WORDS),
            Column("teardown", lambda one: one.teardown, Kind.WORDS),
            Column("counts", lambda one: "with an instance" if one.multi else "once registered", Kind.WORDS),
        ),
        hindering,
        heading="Hotplug states that make smt=off take CPUs down one by one:",
        record=lambda one: dict(vars(one)),
    )
