"""The `report` command: from its arguments to the files it writes."""

from __future__ import annotations

import argparse
from typing import TextIO

from hotplug_timer import reader
from hotplug_timer.compare import comparison as compare
from hotplug_timer.compare.text import print_notices
from hotplug_timer.notices import print_lines
from hotplug_timer.report import page, traces


def report(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Write the report and print where it is; ToolError when files are not what they should be."""
    data = reader.read_files(arguments.files)
    comparison = compare.compare(data, arguments.baseline, arguments.force)
    found = traces.read_traces(data.runs, arguments.trace)
    print_lines("note", found.notices, err)
    print_notices(comparison, err)
    for path in page.write_report(data, comparison, found, arguments.line, arguments.output_dir):
        out.write(f"{path}\n")
