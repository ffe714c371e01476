"""Which traces belong to some runs, and what they say, by mode, operation and variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.errors import ToolError
from hotplug_timer.reader import Recording, Run
from hotplug_timer.trace.command import ANALYSES, find_mode, take
from hotplug_timer.trace.model import Analysis

#: What trace-cmd prints may lie beside its trace.dat, and is read in its place: it needs no trace-cmd.
TEXT_SUFFIXES = (".txt", ".txt.xz")


@dataclass(frozen=True)
class Subject:
    """What a trace is of. OPERATION and VARIANT are None for one that no run names: NAME is its file's."""

    mode: str
    operation: str | None
    variant: str | None
    name: str


@dataclass(frozen=True)
class Traced:
    """What the traces of one subject say together; `notes` are what is odd about them."""

    subject: Subject
    files: tuple[Path, ...]
    analysis: Analysis
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Traces:
    """All traces that could be read, and what to say about the others."""

    found: tuple[Traced, ...]
    notices: tuple[str, ...]

    def of(self, mode: str) -> list[Traced]:
        """Return those of a mode."""
        return [one for one in self.found if one.subject.mode == mode]


def read_traces(runs: Sequence[Run], named: Sequence[Path]) -> Traces:
    """Read the traces that the runs' result files name and that lie beside them, and the NAMED ones.

    A named one that is called like a trace of a run is that trace, from elsewhere. ToolError when a named
    one cannot be read; one of a run's that cannot be read is left out with a notice.
    """
    notices: list[str] = []
    files: dict[Subject, list[Path]] = {}
    placed = {path: subject for path in named if (subject := _namesake(path, runs)) is not None}
    stems = {path.stem for path in placed}
    for run in runs:
        for recording in run.recordings:
            path = _beside(run, recording)
            if path is not None and path.stem not in stems:
                files.setdefault(_subject(run, recording), []).append(path)
            elif Path(recording.file).stem not in stems:
                notices.append(f"{run.source}: its trace {recording.file} is not beside it and is left out")
    beside = {path.resolve() for paths in files.values() for path in paths}
    for path in dict.fromkeys(named):
        if path.resolve() not in beside:
            subject = placed.get(path) or Subject(find_mode(path), None, None, path.name)
            files.setdefault(subject, []).append(path)
    found = [_read(subject, paths, named, notices) for subject, paths in files.items()]
    return Traces(tuple(one for one in found if one is not None), tuple(notices))


def _subject(run: Run, recording: Recording) -> Subject:
    return Subject(recording.mode, recording.operation, run.variant, f"{recording.operation}, {run.variant}")


def _namesake(path: Path, runs: Sequence[Run]) -> Subject | None:
    """Return what the one trace of a run is of that is called like this file; None without just one."""
    like = {
        _subject(run, recording)
        for run in runs
        for recording in run.recordings
        if Path(recording.file).stem == path.stem
    }
    return like.pop() if len(like) == 1 else None


def _beside(run: Run, recording: Recording) -> Path | None:
    """Return the trace beside the run's result file; None when there is none, or its name leads elsewhere."""
    if Path(recording.file).name != recording.file or "\0" in recording.file:
        return None
    path = Path(run.source).with_name(recording.file)
    try:
        texts = (path.with_suffix(suffix) for suffix in TEXT_SUFFIXES)
        return next((one for one in (*texts, path) if one.is_file()), None)
    except OSError:
        # A name longer than any file's, for example.
        return None


def _read(
    subject: Subject, paths: Sequence[Path], named: Sequence[Path], notices: list[str]
) -> Traced | None:
    """Read a subject's traces together, without those that cannot be read; None when none can."""
    unread: list[Path] = []
    while wanted := [path for path in dict.fromkeys(paths) if path not in unread]:
        analysis = ANALYSES[subject.mode]()
        notes: list[str] = []
        for path in wanted:
            try:
                take(path, analysis, subject.mode, notes)
            except ToolError as error:
                if path in named:
                    raise
                notices.append(f"a trace is left out: {error}")
                unread.append(path)
                break
        else:
            return Traced(subject, tuple(wanted), analysis, (*notes, *analysis.notices()))
    return None
