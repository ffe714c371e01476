"""The `predict` command: from its arguments to what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from hotplug_common.tables import print_tables
from hotplug_common.timings import Timing, read_timings
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.compare.cautions import run_notices
from hotplug_timer.notices import print_lines
from hotplug_timer.predict import outlook, render, validation
from hotplug_timer.predict.data import from_results
from hotplug_timer.predict.groups import Roles
from hotplug_timer.reader import read_files


def predict(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print predictions, or their validation; ToolError when what was asked for or given is wrong."""
    if arguments.validate and (arguments.plot or arguments.toggled):
        raise ToolError("--plot and --toggled go with --cpus", "leave --validate out", ExitCode.USAGE)
    expedited = tuple(name for name in arguments.expedited.split(",") if name)
    roles = Roles(arguments.baseline, expedited, arguments.chunk)
    if arguments.plot:
        # matplotlib takes a second: only where something is drawn.
        from hotplug_timer.predict import plot  # noqa: PLC0415

        plot.check_path(arguments.plot)
    timings, notices = read(arguments.files)
    print_lines("note", notices, err)
    if arguments.validate:
        checked = validation.validate(timings, roles)
        print_lines("note", (f"not checked: {text}" for text in checked.left_out), err)
        print_tables(render.validation_sheet(checked), arguments.format, out)
        return
    found = outlook.look_out(timings, arguments.cpus, arguments.toggled, roles)
    print_lines("warning", found.reservations, err)
    print_tables(render.outlook_sheet(found), arguments.format, out)
    if arguments.plot:
        plot.write_picture(found, roles, arguments.plot)


def read(paths: Sequence[Path]) -> tuple[list[Timing], list[str]]:
    """Return the timings in result files and CSV files, and what was odd about the former."""
    tables = [path for path in paths if path.suffix.lower() == ".csv"]
    results = [path for path in paths if path not in tables]
    timings = [timing for path in tables for timing in read_timings(path)]
    if not results:
        return timings, []
    data = read_files(results)
    return [*timings, *from_results(data)], [*data.notices, *run_notices(data.runs)]
