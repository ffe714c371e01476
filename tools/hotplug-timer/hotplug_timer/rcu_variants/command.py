"""The `rcu-variants` command: from its arguments to what it prints or writes."""

from __future__ import annotations

import argparse
from typing import TextIO

from hotplug_common.tables import print_tables
from hotplug_timer.compare.text import print_notices
from hotplug_timer.rcu_variants import render, table
from hotplug_timer.rcu_variants.variants import by_names
from hotplug_timer.reader import read_files


def rcu_variants(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Print the table, or write its files and print their paths; ToolError when it cannot be made."""
    variants = by_names([name for name in arguments.rows.split(",") if name])
    made = table.make(read_files(arguments.files), variants)
    print_notices(made.comparison, err)
    if arguments.output_dir is None:
        print_tables(render.sheet(made), arguments.format, out)
        return
    for path in render.write_table(made, arguments.output_dir):
        out.write(f"{path}\n")
