"""The command line of `history`. The commands themselves are imported where they run: they take a second."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common.tables import JUNIT, add_format
from hotplug_host.arguments import given, percent, positive
from hotplug_host.subcommands import add_subcommand

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

DESCRIPTION = """\
Keep the history of scheduled runs, and report since when a switch takes longer or shorter. A series is the
medians of one host, variant and operation under the same conditions: CPUs, emulated or not, boot method,
driver, RCU expedited or not.
"""
EPILOG = """\
examples:
  hotplug-timer history add results/raw/*.jsonl --store results/history
  hotplug-timer history check --store results/history
  hotplug-timer history report --store results/history --output-dir results/trend
"""
ADD_DESCRIPTION = """\
Add the runs in result files to a store, which is made when missing. A run that is there already is passed
by. A run that was interrupted, or whose switch failed, is added as failed, with the reason: nothing of it is
used. Several may add at the same time.
"""
ADD_EPILOG = """\
examples:
  hotplug-timer history add results/raw/lab1/*.jsonl --store results/history
"""
FAILED_DESCRIPTION = """\
Add a run that left no result file as failed: its host was down, its kernel did not boot.
"""
FAILED_EPILOG = """\
examples:
  hotplug-timer history failed --host lpar1 --variant patched --reason "no SSH" --store results/history
"""
SUSPECTS_DESCRIPTION = """\
Print the variants of a host of which a series was suspect on the night before this one: a line each. Boot
them several times tonight. The answer passes by the runs of the last 12 hours. A store that is not there yet
has none.
"""
SUSPECTS_EPILOG = """\
examples:
  hotplug-timer history suspects --host lpar1 --store results/history
"""
MEASURED_DESCRIPTION = """\
Print those of the variants of which the history has a whole run on the host, of the kernel given for each: a
line each. A store that is not there yet has none.
"""
MEASURED_EPILOG = """\
examples:
  hotplug-timer history measured stock=6.12.9-stock-ab12 --host lpar1 --store results/history
"""
CHECK_DESCRIPTION = """\
Print the verdict of each series: regression, improvement, suspect (the newest night is far off, and the next
one is to confirm it), steady, or insufficient history (fewer than 10 nights). Beside it are the steps that
the noise of the series lets be found: within ten nights anywhere, and within twenty at a new kernel. The exit
code is for scripts: 8 with a regression; else 5 when the newest run of a host and variant failed; else 9 when
no series has enough history; else 0.
"""
CHECK_EPILOG = """\
examples:
  hotplug-timer history check --store results/history
  hotplug-timer history check --store results/history --format junit > history-junit.xml
"""
REPORT_DESCRIPTION = """\
Write history.html, one file that needs no other and no network, with the trend of each series, and beside it
history.json, history-junit.xml, history-kcidb.json (KernelCI's database, v5.3) and history.prom (for the
textfile collector of Prometheus' node_exporter).
"""
REPORT_EPILOG = """\
examples:
  hotplug-timer history report --store results/history --output-dir results/trend
  # the metrics where node_exporter looks for them, and another name to KernelCI
  hotplug-timer history report --store results/history --output-dir results/trend --origin example \\
      --metrics /var/lib/prometheus/node-exporter/hotplug_timer.prom
"""


def add_commands(commands: Commands) -> None:
    """Add `history` and the commands below it."""
    history = add_subcommand(
        commands,
        "history",
        summary="keep the history of runs, find regressions",
        description=DESCRIPTION,
        examples=EPILOG,
    )
    below = history.add_subparsers(dest="history_command", required=True, metavar="COMMAND")

    add = add_subcommand(
        below, "add", summary="add the runs in result files", description=ADD_DESCRIPTION, examples=ADD_EPILOG
    )
    add.add_argument("files", nargs="+", type=Path, metavar="FILE", help="result file of `run`")
    add.add_argument(
        "--host",
        type=given,
        metavar="NAME",
        help="what to call the host (default: as it calls itself in the result file)",
    )
    _add_store(add)
    add.set_defaults(handler=_handler("add"))

    failed = add_subcommand(
        below,
        "failed",
        summary="add a run that left no result file",
        description=FAILED_DESCRIPTION,
        examples=FAILED_EPILOG,
    )
    failed.add_argument(
        "--host", type=given, required=True, metavar="NAME", help="the host, as `add` calls it"
    )
    failed.add_argument(
        "--variant", type=given, required=True, metavar="VARIANT", help="the variant that was to be measured"
    )
    failed.add_argument("--reason", type=given, required=True, metavar="TEXT", help="why there is no result")
    failed.add_argument(
        "--started", metavar="TIME", help="when the run was to start, as 2026-11-21T02:00:00Z (default: now)"
    )
    _add_store(failed)
    failed.set_defaults(handler=_handler("failed"))

    measured = add_subcommand(
        below,
        "measured",
        summary="print what a host has measured already",
        description=MEASURED_DESCRIPTION,
        examples=MEASURED_EPILOG,
    )
    measured.add_argument(
        "kernels", nargs="+", metavar="VARIANT=RELEASE", help="a variant, and its kernel as uname -r names it"
    )
    measured.add_argument(
        "--host", type=given, required=True, metavar="NAME", help="the host, as `add` calls it"
    )
    _add_store(measured)
    measured.set_defaults(handler=_handler("measured"))

    suspects = add_subcommand(
        below,
        "suspects",
        summary="print what to boot several times tonight",
        description=SUSPECTS_DESCRIPTION,
        examples=SUSPECTS_EPILOG,
    )
    suspects.add_argument(
        "--host", type=given, required=True, metavar="NAME", help="the host, as `add` calls it"
    )
    _add_store(suspects)
    suspects.set_defaults(handler=_handler("suspects"))

    check = add_subcommand(
        below,
        "check",
        summary="print verdicts, end with a code for them",
        description=CHECK_DESCRIPTION,
        examples=CHECK_EPILOG,
    )
    _add_store(check)
    _add_bounds(check)
    add_format(check, JUNIT)
    check.set_defaults(handler=_handler("check"))

    report = add_subcommand(
        below,
        "report",
        summary="write the trend page and files for CI",
        description=REPORT_DESCRIPTION,
        examples=REPORT_EPILOG,
    )
    _add_store(report)
    _add_bounds(report)
    report.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="made when missing")
    report.add_argument(
        "--origin",
        default="hotplug_timer",
        metavar="NAME",
        help="who reports to KCIDB (default: %(default)s)",
    )
    report.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="the metrics' file (default: history.prom beside the page)",
    )
    report.set_defaults(handler=_handler("report"))


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, required=True, metavar="DIR", help="where the history is kept")


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recent",
        type=positive,
        default=20,
        metavar="N",
        help="the verdict is about a change that N nights ago was not known yet (default: %(default)s)",
    )
    parser.add_argument(
        "--days",
        type=positive,
        metavar="N",
        help="look at the newest N days of the history only (default: all of it)",
    )
    parser.add_argument(
        "--min-change",
        type=percent,
        default=3.0,
        metavar="PERCENT",
        help="changes smaller than this are passed by (default: %(default)s)",
    )


def _handler(name: str) -> Callable[[argparse.Namespace], None]:
    def handle(arguments: argparse.Namespace) -> None:
        command = import_module("hotplug_timer.history.command")
        getattr(command, name)(arguments, sys.stdout, sys.stderr)

    return handle
