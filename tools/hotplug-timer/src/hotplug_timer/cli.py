"""The controller's command line: run, bundle, compare, report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hotplug_timer import __version__, bundle
from hotplug_timer.target import command as run_command

DESCRIPTION = "Times, counts, compares and reports SMT switches."
EPILOG = """\
examples:
  hotplug-timer run smt=off smt=on --label stock --iterations 10 --output stock.jsonl
  hotplug-timer compare stock.jsonl patched.jsonl
  hotplug-timer report stock.jsonl patched.jsonl --output-dir results/demo --base 6.12
"""
BUNDLE_EPILOG = """\
examples:
  hotplug-timer bundle -o hotplug-timer.pyz
  scp hotplug-timer.pyz lpar: && ssh lpar python3 hotplug-timer.pyz run smt=off smt=on \\
      --label stock --iterations 10 --output stock.jsonl
"""
COMPARE_DESCRIPTION = """\
Compare variants: per operation seconds, decrease against the baseline, a 95% interval, an exact p-value
and a verdict in words; then what each transition costs the machine in counts. Lower is better.
Only timed iterations that succeeded are used. Files of one label are taken together.
"""
COMPARE_EPILOG = """\
examples:
  hotplug-timer compare stock-1.jsonl patched-1.jsonl patched-2.jsonl stock-2.jsonl
  hotplug-timer compare *.jsonl --baseline 6.12 --format markdown
"""
REPORT_DESCRIPTION = """\
Write report.html (one self-contained file) and summary.json into a directory.
"""
REPORT_EPILOG = """\
examples:
  hotplug-timer report results/raw/*.jsonl --output-dir results/demo --base 6.12
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the whole command line."""
    parser = _parser(argparse.ArgumentParser, prog="hotplug-timer", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"hotplug-timer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = _parser(
        commands.add_parser,
        "run",
        help=run_command.RUN_SUMMARY,
        description=run_command.RUN_DESCRIPTION,
        epilog=run_command.RUN_EPILOG,
    )
    run_command.add_run_arguments(run)
    run.set_defaults(handler=run_command.run)

    pack = _parser(
        commands.add_parser,
        "bundle",
        help="pack `run` into one file for measured hosts",
        description="Pack `run` into one Python file that needs nothing but Python 3.9 or later.",
        epilog=BUNDLE_EPILOG,
    )
    pack.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("hotplug-timer.pyz"),
        metavar="FILE",
        help="(default: %(default)s)",
    )
    pack.set_defaults(handler=_bundle)

    compare = _parser(
        commands.add_parser,
        "compare",
        help="compare variants and print a verdict",
        description=COMPARE_DESCRIPTION,
        epilog=COMPARE_EPILOG,
    )
    _add_inputs(compare)
    compare.add_argument(
        "--format",
        choices=("table", "markdown", "csv", "json"),
        default="table",
        help="how to print it (default: %(default)s)",
    )
    compare.set_defaults(handler=_compare)

    report = _parser(
        commands.add_parser,
        "report",
        help="write an HTML report and summary.json",
        description=REPORT_DESCRIPTION,
        epilog=REPORT_EPILOG,
    )
    _add_inputs(report)
    report.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="made when missing")
    report.add_argument(
        "--base", required=True, metavar="VERSION", help="the kernel the variants build on, for example 6.12"
    )
    report.set_defaults(handler=_report)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = build_parser().parse_args(argv)
    return run_command.guarded(arguments.handler, arguments)


def _parser(
    make: Callable[..., argparse.ArgumentParser], *names: str, **texts: str
) -> argparse.ArgumentParser:
    return make(*names, formatter_class=argparse.RawDescriptionHelpFormatter, **texts)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="result file of `run`")
    parser.add_argument(
        "--baseline",
        default="stock",
        metavar="LABEL",
        help="what the others are held against (default: stock)",
    )


def _bundle(arguments: argparse.Namespace) -> None:
    bundle.write_bundle(arguments.output)
    sys.stdout.write(f"{arguments.output}\n")


# The analysis pulls in scipy and matplotlib, which take a second: only where they are used.
def _compare(arguments: argparse.Namespace) -> None:
    from hotplug_timer.analysis import compare, reader, render  # noqa: PLC0415

    comparison = compare.compare(reader.read_files(arguments.files), arguments.baseline)
    render.print_notices(comparison, sys.stderr)
    render.print_comparison(comparison, arguments.format, sys.stdout)


def _report(arguments: argparse.Namespace) -> None:
    from hotplug_timer.analysis import compare, reader, render, report  # noqa: PLC0415

    data = reader.read_files(arguments.files)
    comparison = compare.compare(data, arguments.baseline)
    render.print_notices(comparison, sys.stderr)
    for path in report.write_report(data, comparison, arguments.base, arguments.output_dir):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    sys.exit(main())
