"""The `predict` command: from its arguments to what it prints."""

from __future__ import annotations

import argparse
import csv
from importlib.resources import files
from pathlib import Path
from typing import TextIO

from hotplug_common.arch import PPC64LE
from hotplug_common.tables import print_tables
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import DIRECTIONS, OFF
from hotplug_host.preflight.lpar import DEDICATED
from hotplug_host.records import COMPLETE
from hotplug_host.timing.tracing import STATES
from hotplug_timer.notices import print_lines
from hotplug_timer.predict.costs import Costs, closure_of, costs_of, hindering, measured
from hotplug_timer.predict.patched import ARRIVAL, Machine, Size
from hotplug_timer.predict.render import Outlook, sheet
from hotplug_timer.reader import Run, read_files
from hotplug_timer.report.traces import read_traces
from hotplug_timer.trace.states import States

GIVE = "give a result of hotplug-timer measure-costs, with the traces that it wrote beside it"


def predict(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print a prediction; ToolError when there is none."""
    found, notices = look_out(arguments.file, arguments.toggled, arguments.chunk)
    print_lines("note", notices, err)
    print_tables(sheet(found), arguments.format, out)


def look_out(path: Path, toggled: int | None, chunk: int) -> tuple[Outlook, list[str]]:
    """Return what a file of `measure-costs` predicts, and what was odd about it; ToolError (INPUT) if none.

    TOGGLED is how many CPUs are switched, None for as many as smt=off takes.
    """
    data = read_files([path])
    plain, expedited = _pair(path, data.runs)
    size = Size(plain.online, toggled or plain.online - plain.shape.cores, chunk)
    if not 0 < size.toggled < size.cpus:
        raise ToolError(
            f"{path}: {size.toggled} of {size.cpus} CPUs cannot be switched",
            "name with --toggled how many are",
            ExitCode.USAGE if toggled else ExitCode.INPUT,
        )
    traces = read_traces([expedited], [])
    costs: list[Costs] = []
    hinder: tuple[str, ...] = ()
    for direction in DIRECTIONS:
        traced = next(
            (
                one.analysis
                for one in traces.of(STATES)
                if (one.subject.operation or "").endswith(f":{direction}")
            ),
            None,
        )
        if not isinstance(traced, States):
            problem = "; ".join(traces.notices) or f"no trace of {direction} belongs to it"
            raise ToolError(f"{path}: {problem}", GIVE, ExitCode.INPUT)
        callbacks = traced.by_state()
        costs.append(costs_of(direction, measured(plain, expedited, direction, callbacks)))
        if direction == OFF:
            hinder = hindering(callbacks, plain.states, marked_states())
    kernel = plain.host.kernel_release
    emulated, machine = plain.host.emulated, _machine(plain)
    closure = closure_of(costs)
    return Outlook(kernel, emulated, size, machine, closure, tuple(costs), hinder), list(data.notices)


def _machine(run: Run) -> Machine:
    """Return what the series does for the machine of a run."""
    arch = run.host.machine
    cedes = arch == PPC64LE.name and run.lpar_mode != DEDICATED
    return Machine((run.busy_slowdown or 1.0) if cedes else 1.0, ARRIVAL.get(arch, 0.0))


def marked_states() -> frozenset[str]:
    """Return the states that the series marks as safe for bulk offlining: their names and teardown callbacks.

    `lpar-lab check-apply --format json` lists them from a kernel's source.
    """
    text = files("hotplug_timer").joinpath("data/marked-states.csv").read_text(encoding="utf-8")
    return frozenset(word for line in list(csv.reader(text.splitlines()))[1:] for word in line)


def _pair(path: Path, runs: tuple[Run, ...]) -> tuple[Run, Run]:
    """Return the run on the machine as it is, and the one with grace periods expedited."""
    plain = [run for run in runs if run.rcu.get("rcu_expedited") == "0"]
    expedited = [run for run in runs if run.rcu.get("rcu_expedited") == "1"]
    ended = all(run.outcome == COMPLETE for run in runs)
    both = len(plain) == len(expedited) == 1 and plain[0].operations == expedited[0].operations
    if not ended or not both:
        raise ToolError(f"{path}: not a result of measure-costs that came to its end", GIVE, ExitCode.INPUT)
    if any(item.counts and "chunks" in item.counts for item in plain[0].iterations):
        raise ToolError(
            f"{path}: {plain[0].host.kernel_release} is a patched kernel",
            "measure the costs on the stock one",
            ExitCode.INPUT,
        )
    return plain[0], expedited[0]
