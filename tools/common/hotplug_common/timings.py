"""Timings of switches, and the CSV files that hold some, such as published ones."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, stdev

from hotplug_host.errors import ExitCode, ToolError

REQUIRED = ("source", "kernel", "system", "cpus", "toggled", "direction", "variant", "seconds")
#: Per switch: all of them or none. `expedited` are among the `grace_periods`.
COUNTED = ("grace_periods", "expedited", "rendezvous", "rebuilds")
OPTIONAL = (*COUNTED, "emulated")
COLUMNS = "docs/guides/kernel-developers/predict.md describes the columns"
_TRUTHS = {"": False, "no": False, "yes": True}


@dataclass(frozen=True)
class Counts:
    """Events of one switch of `toggled` CPUs, as counted; grace periods without the expedited ones."""

    toggled: int
    grace_periods: float
    expedited: float
    rendezvous: float
    rebuilds: float


@dataclass(frozen=True)
class Timing:
    """One switch of `toggled` of `cpus` CPUs; `seconds` is the median of `n` repetitions.

    `direction` is "off" or "on". `error` is the median's relative standard error, 0 for a single value.
    `counts` is None when the run did not count. `fqs_base` is the first wait of RCU for quiescent states on a
    small machine, in jiffies; None where an administrator set it.
    """

    source: str
    kernel: str
    system: str
    operation: str
    direction: str
    variant: str
    cpus: int
    toggled: int
    seconds: float
    n: int
    error: float
    emulated: bool
    counts: Counts | None = None
    fqs_base: int | None = 1


def read_timings(path: Path) -> list[Timing]:
    """Return the timings in a CSV; lines that differ in `seconds` alone are repetitions of one.

    Raises ToolError (INPUT), with file and line, when it is not what it should be.
    """
    samples: dict[Timing, list[float]] = {}
    for where, line in _lines(path):
        timing = _timing(where, str(path), line)
        samples.setdefault(timing, []).append(_seconds(where, line["seconds"]))
    if not samples:
        raise _wrong(str(path), "holds no timings")
    if len({timing.emulated for timing in samples}) > 1:
        raise _wrong(
            str(path), "mixes emulated seconds and those of hardware", "keep them in files of their own"
        )
    return [_with(timing, seconds) for timing, seconds in samples.items()]


def relative_error(seconds: Sequence[float]) -> float:
    """Return the standard error of a sample's middle, relative to it; 0 for a single value."""
    if len(seconds) < 2:
        return 0.0
    return stdev(seconds) / math.sqrt(len(seconds)) / median(seconds)


def _lines(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = reader.fieldnames or []
            missing = [name for name in REQUIRED if name not in names]
            unknown = [name for name in names if name not in (*REQUIRED, *OPTIONAL)]
            if missing or unknown:
                what = f"lacks {', '.join(missing)}" if missing else f"has columns nobody knows: {unknown}"
                raise _wrong(str(path), f"the first line {what}")
            for line in reader:
                where = f"{path}:{reader.line_num}"
                if None in line or None in line.values():
                    raise _wrong(where, "has more or fewer fields than the first line")
                yield where, {name: value.strip() for name, value in line.items()}
    except OSError as error:
        raise _wrong(str(path), f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise _wrong(str(path), f"is not a CSV file: {error}") from error


def _timing(where: str, path: str, line: Mapping[str, str]) -> Timing:
    cpus, toggled = _whole(where, line, "cpus", 2), _whole(where, line, "toggled", 1)
    if toggled >= cpus:
        raise _wrong(where, f"toggled: {toggled} of {cpus} CPUs leaves none online")
    if line["direction"] not in ("off", "on"):
        raise _wrong(where, f"direction: {line['direction']!r} is neither off nor on")
    if line.get("emulated", "") not in _TRUTHS:
        raise _wrong(where, f"emulated: {line['emulated']!r} is neither yes nor no")
    if not line["variant"]:
        raise _wrong(where, "variant: is empty")
    return Timing(
        source=line["source"] or path,
        kernel=line["kernel"],
        system=line["system"],
        operation=f"smt={line['direction']}",
        direction=line["direction"],
        variant=line["variant"],
        cpus=cpus,
        toggled=toggled,
        seconds=0.0,
        n=0,
        error=0.0,
        emulated=_TRUTHS[line.get("emulated", "")],
        counts=_counts(where, line, toggled),
    )


def _counts(where: str, line: Mapping[str, str], toggled: int) -> Counts | None:
    given = [name for name in COUNTED if line.get(name)]
    if not given:
        return None
    if len(given) < len(COUNTED):
        raise _wrong(where, f"has {', '.join(given)} and not all of {', '.join(COUNTED)}")
    waits, expedited, rendezvous, rebuilds = (_whole(where, line, name, 0) for name in COUNTED)
    return Counts(toggled, max(0, waits - expedited), expedited, rendezvous, rebuilds)


def _with(timing: Timing, seconds: list[float]) -> Timing:
    return replace(timing, seconds=median(seconds), n=len(seconds), error=relative_error(seconds))


def _seconds(where: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise _wrong(where, f"seconds: {text!r} is not a time above 0")
    return seconds


def _whole(where: str, line: Mapping[str, str], name: str, least: int) -> int:
    text = line[name]
    # str.isdigit() also accepts other scripts' digits; and what no machine has is a mistake.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise _wrong(where, f"{name}: {text!r} is not a whole number from {least}")
    return int(text)


def _wrong(where: str, what: str, hint: str = COLUMNS) -> ToolError:
    return ToolError(f"{where}: {what}", hint, ExitCode.INPUT)
