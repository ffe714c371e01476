"""The `history` commands: from their arguments to what they write."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TextIO

from hotplug_common.tables import print_tables
from hotplug_host import clock
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.history import render, series, store
from hotplug_timer.history.entry import failure, from_runs
from hotplug_timer.history.series import INSUFFICIENT, REGRESSION, Outlook, look, newest_days
from hotplug_timer.notices import print_lines
from hotplug_timer.reader import read_files

#: Failed runs that `check` names; the page has all of them.
MAX_FAILURES = 5
#: A hundred years.
MAX_DAYS = 36_500


def add(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Add the runs in result files; ToolError when a file or the store is not what it should be."""
    data = read_files(arguments.files)
    print_lines("note", data.notices, err)
    _print_added(store.add(arguments.store, from_runs(data.runs, arguments.host)), out, err)


def failed(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Add a run that left no result file; ToolError (USAGE) when its time is none."""
    started = _time(arguments.started) if arguments.started else clock.now()
    entry = failure(arguments.host, arguments.variant, started, arguments.reason)
    _print_added(store.add(arguments.store, [entry]), out, err)


def measured(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print the variants of which a host has a whole run of that kernel; of a store to be made, none."""
    pairs = [text.partition("=")[::2] for text in arguments.kernels]
    if wrong := [text for text, pair in zip(arguments.kernels, pairs, strict=True) if not all(pair)]:
        raise ToolError(f"'{wrong[0]}' is no kernel", "write VARIANT=RELEASE", ExitCode.USAGE)
    if not (arguments.store / store.RUNS).exists():
        return
    contents = store.read(arguments.store)
    print_lines("note", contents.notices, err)
    whole = {
        (entry.variant, entry.kernel)
        for entry in contents.entries
        if entry.host == arguments.host and entry.failed is None
    }
    out.write("".join(f"{name}\n" for name, release in pairs if (name, release) in whole))


def suspects(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print the variants of a host that the night before made suspect; of a store to be made, none."""
    if not (arguments.store / store.RUNS).exists():
        return
    contents = store.read(arguments.store)
    print_lines("note", contents.notices, err)
    now = datetime.fromisoformat(clock.now())
    out.write("".join(f"{name}\n" for name in series.suspects(contents.entries, arguments.host, now)))


def check(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print the verdicts; ToolError with a code of its own for each thing that is to wake somebody."""
    contents = store.read(arguments.store)
    print_lines("note", contents.notices, err)
    outlook = _look(arguments, contents)
    print_lines("note", render.notices(outlook, MAX_FAILURES), err)
    print_tables(render.sheet(outlook), arguments.format, out)
    raise_verdict(outlook)


def report(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Write the page and what is beside it, and print where."""
    from hotplug_timer.history import page  # noqa: PLC0415

    contents = store.read(arguments.store)
    print_lines("note", contents.notices, err)
    outlook = _look(arguments, contents)
    for path in page.write_report(
        outlook, contents.notices, arguments.origin, arguments.output_dir, arguments.metrics
    ):
        out.write(f"{path}\n")


def raise_verdict(outlook: Outlook) -> None:
    """Raise what `check` ends with: REGRESSION, else OPERATION, else NO_BASELINE; nothing if all is well."""
    slower = outlook.with_verdict(REGRESSION)
    if slower:
        raise ToolError(
            f"{len(slower)} of {len(outlook.series)} series slower: {slower[0].key.name} is a"
            f" {render.sentence(slower[0])}",
            "see hotplug-timer history report",
            ExitCode.REGRESSION,
        )
    if outlook.failed:
        raise ToolError(
            render.failed_text(outlook.failed[0]),
            "what is printed is of older runs: see to the host and run again",
            ExitCode.OPERATION,
        )
    if len(outlook.with_verdict(INSUFFICIENT)) == len(outlook.series):
        raise ToolError(
            "no series has enough history to be judged",
            "go on adding runs; what is missing is in the table",
            ExitCode.NO_BASELINE,
        )


def _look(arguments: argparse.Namespace, contents: store.Contents) -> Outlook:
    if arguments.days is not None and arguments.days > MAX_DAYS:
        raise ToolError(
            f"--days {arguments.days} is longer than any history", f"name 1 to {MAX_DAYS}", ExitCode.USAGE
        )
    entries = newest_days(contents.entries, arguments.days) if arguments.days else contents.entries
    return look(entries, arguments.recent, arguments.min_change)


def _print_added(added: store.Added, out: TextIO, err: TextIO) -> None:
    print_lines("note", added.notices, err)
    print_lines("note", (render.failed_text(entry) for entry in added.entries if entry.failed), err)
    known = f", {added.known} known already" if added.known else ""
    out.write(f"{len(added.entries)} added{known}\n")


def _time(text: str) -> str:
    """Return a time given on the command line as records have it."""
    try:
        time = datetime.fromisoformat(text)
        if time.utcoffset() is not None:
            return clock.text(time)
    except (ValueError, OverflowError):
        pass
    raise ToolError(
        f"--started {text!r} is not a time with its offset", "write 2026-11-21T02:00:00Z", ExitCode.USAGE
    )
