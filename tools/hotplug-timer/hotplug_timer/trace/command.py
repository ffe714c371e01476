"""The `trace` command: from its arguments to what it prints and writes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

from hotplug_common.tables import print_tables
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.timing.tracing import COUNTS, GRAPH, OFFCPU, STATES
from hotplug_timer.notices import print_lines
from hotplug_timer.trace.counts import Counts
from hotplug_timer.trace.events import EVENT, STACK, Scan, scan
from hotplug_timer.trace.flame import to_folded, to_svg
from hotplug_timer.trace.folded import FoldedOffCpu, is_folded, scan_folded
from hotplug_timer.trace.graph import Graph
from hotplug_timer.trace.model import Analysis
from hotplug_timer.trace.offcpu import OffCpu
from hotplug_timer.trace.source import is_recording, open_lines
from hotplug_timer.trace.states import States

ANALYSES: Mapping[str, Callable[[], Analysis]] = {
    COUNTS: Counts,
    STATES: States,
    OFFCPU: OffCpu,
    GRAPH: Graph,
}

#: So many lines are looked at for the first event that tells the mode.
SEARCHED = 100_000


def trace(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print tables and write pictures; ToolError when a trace is not what it should be."""
    analysis = analyse(arguments.files, arguments.mode, err)
    print_lines("note", analysis.notices(), err)
    print_tables(analysis.sheet(arguments.top), arguments.format, out)
    if arguments.folded is not None:
        _write(arguments.folded, to_folded(analysis.folded()))
    if arguments.svg is not None:
        _write(arguments.svg, to_svg(analysis.folded(), analysis.title, analysis.unit))


def analyse(files: Sequence[Path], mode: str | None, err: TextIO) -> Analysis:
    """Return the analysis of traces of one mode, which None finds out; ToolError (INPUT) as `read` has it."""
    if mode in (None, OFFCPU) and _holds_folded(files[0]):
        folded = FoldedOffCpu()
        for path in files:
            read_folded(path, folded, err)
        return folded
    mode = mode or find_mode(files[0])
    analysis = ANALYSES[mode]()
    for path in files:
        read(path, analysis, mode, err)
    return analysis


def read(path: Path, analysis: Analysis, mode: str, err: TextIO) -> None:
    """Give a file to an analysis and print what is odd about it; ToolError as `take` has it."""
    notes: list[str] = []
    try:
        take(path, analysis, mode, notes)
    finally:
        print_lines("note", notes, err)


def take(path: Path, analysis: Analysis, mode: str, notes: list[str]) -> None:
    """Give a file to an analysis; what is odd about the file is added to NOTES.

    ToolError (INPUT) when it holds nothing the analysis reads, or cannot be read.
    """
    with open_lines(path) as lines:
        found = scan(lines, analysis.handlers(), str(path))
    analysis.end_file()
    notes += _odd(path, found, "not a line of trace-cmd report")
    if not found.taken:
        raise ToolError(
            f"{path}: none of its {found.events} events is one of mode {mode}",
            "name the --mode it was recorded in, and text that `trace-cmd report` printed",
            ExitCode.INPUT,
        )


def read_folded(path: Path, analysis: FoldedOffCpu, err: TextIO) -> None:
    """Give folded stacks to an analysis; ToolError (INPUT) when a file holds none."""
    with open_lines(path) as lines:
        found = scan_folded(lines, analysis)
    print_lines("note", _odd(path, found, "not a folded stack"), err)
    if not found.taken:
        raise ToolError(
            f"{path}: none of its {found.events} lines is a folded stack",
            "give files of one kind: traces, or folded stacks",
            ExitCode.INPUT,
        )


def find_mode(path: Path) -> str:
    """Return the mode of a trace, by its first event that tells; ToolError (INPUT) if none does."""
    modes = {name.encode(): mode for mode, make in ANALYSES.items() for name in make().handlers()}
    # Stacks come with more than one mode.
    del modes[STACK]
    with open_lines(path, whole=False) as lines:
        for line in islice(lines, SEARCHED):
            found = EVENT.match(line)
            if found is not None and found[6] in modes:
                return modes[found[6]]
    raise ToolError(
        f"{path}: no event of a known mode in its first {SEARCHED} lines",
        "give what `run --trace` recorded, text that trace-cmd printed, or folded stacks",
        ExitCode.INPUT,
    )


def _holds_folded(path: Path) -> bool:
    if is_recording(path):
        return False
    with open_lines(path, whole=False) as lines:
        return is_folded(lines)


def _odd(path: Path, found: Scan, unknown: str) -> list[str]:
    notes = []
    if found.is_cut:
        notes.append(f"{path}: the last line is cut short and was left out")
    if found.unknown:
        notes.append(f"{path}:{found.first_unknown}: {unknown}; {found.unknown} such left out")
    return notes


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"cannot write {path}: {error.strerror}", "name another file", ExitCode.ENVIRONMENT
        ) from error
