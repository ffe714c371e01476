"""The controller's command line: what runs on measured hosts, bundle, and all that reads results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common.bundle import write
from hotplug_common.tables import JUNIT, add_format, print_tables
from hotplug_host import __version__
from hotplug_host.arguments import positive
from hotplug_host.entry import Parser
from hotplug_host.subcommands import add_commands, add_subcommand, run_command
from hotplug_host.timing import command as target_command
from hotplug_host.timing.command import PROGRAM
from hotplug_host.timing.tracing import MODES
from hotplug_timer import bundle
from hotplug_timer.history import arguments as history_arguments
from hotplug_timer.manual import command as manual_command

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

DESCRIPTION = "Switches SMT and CPUs; times, counts, compares, predicts and reports it."
EPILOG = """\
examples:
  hotplug-timer run smt=off smt=on --variant stock --iterations 10 --output stock.jsonl
  hotplug-timer smt off --expedite
  hotplug-timer compare stock.jsonl patched.jsonl
  hotplug-timer rcu-variants results/raw/lab1/*.jsonl
  hotplug-timer measure-costs --output costs.jsonl
  hotplug-timer predict costs.jsonl
  hotplug-timer trace stock.smt=off.states.dat
  hotplug-timer report stock.jsonl patched.jsonl --output-dir results/demo --line 6.12
  hotplug-timer history add patched.jsonl --store results/history
  hotplug-timer convert old/*.jsonl --output-dir new
"""
BUNDLE_EPILOG = """\
examples:
  hotplug-timer bundle -o hotplug-timer.pyz
  scp hotplug-timer.pyz lpar: && ssh lpar python3 hotplug-timer.pyz run smt=off smt=on \\
      --variant stock --iterations 10 --output stock.jsonl
  # nothing is copied
  hotplug-timer bundle --script | ssh lpar python3 - preflight --for switch
"""
COMPARE_DESCRIPTION = """\
Compare variants: per operation seconds, decrease against the baseline, a 95% interval, an exact p-value
and a verdict in words; then what each transition costs the machine in counts. Lower is better.
Only timed iterations that succeeded are used. Files of one variant are taken together. With several variants,
p-values are adjusted for their number. What makes a verdict doubtful is printed with a remedy.
"""
COMPARE_EPILOG = """\
examples:
  hotplug-timer compare stock-1.jsonl patched-1.jsonl patched-2.jsonl stock-2.jsonl
  hotplug-timer compare *.jsonl --baseline 6.12 --format markdown
  # for a CI system: a test case per verdict, failed where a variant is slower; the exit code stays 0
  hotplug-timer compare stock.jsonl patched.jsonl --format junit
"""
RCU_VARIANTS_DESCRIPTION = """\
Make the table of what the waits for RCU grace periods cost CPU hotplug: CPUs offline and online one by one,
on a stock kernel, without the wait in cpuidle, with that one expedited, and with all expedited; next to the
figures published for a POWER9 of 128 CPUs. ansible/playbooks/rcu_variants.yml measures the rows.
Each is checked to be what it says: its kernel, its RCU setting, the same machine and boot method.
"""
RCU_VARIANTS_EPILOG = """\
examples:
  hotplug-timer rcu-variants results/raw/lab1/*.jsonl
  # the files that the playbook writes
  hotplug-timer rcu-variants results/raw/lab1/*.jsonl --output-dir results/table/lab1
  hotplug-timer rcu-variants results/raw/lab1/*.jsonl --rows stock,rcu_expedited --format markdown
"""
PREDICT_DESCRIPTION = """\
Predict how long smt=off and smt=on take on a machine with the patched kernel, from what `measure-costs`
measured there on the stock kernel. The measurement prices what the whole machine waits for. How often it
waits follows from the patches: once for each chunk of 64 CPUs. The command prints a range for each switch,
what it rests on, and which hotplug states of the host would have CPUs go one by one. Where the pieces do not
come to the seconds of their switch, it refuses.
"""
PREDICT_EPILOG = """\
examples:
  hotplug-timer predict costs.jsonl
  # with another hotplug/bulk_chunk
  hotplug-timer predict costs.jsonl --chunk 16
"""
TRACE_DESCRIPTION = """\
Say what traces of `run --trace` hold, each of one transition. By mode: how often a transition waits for grace
periods, stops the machine, rebuilds domains and sends IPIs, and who calls (counts); time per cpuhp state and
per CPU (states); blocked time by kernel stack (offcpu); time per function of one CPU's switch (graph).
FILE is a trace.dat, read through trace-cmd, or the text that `trace-cmd report -t -O parent` prints, as it is
or compressed (gzip, xz); or folded stacks of blocked time, as bcc's `offcputime -f` prints them.
A trace that lost events is refused.
"""
TRACE_EPILOG = """\
examples:
  hotplug-timer trace stock.smt=off.states.dat
  # where the time goes that nothing runs in; all stacks for other tools, and a picture
  hotplug-timer trace stock.smt=off.offcpu.dat --top 5 --folded stock.folded --svg stock.svg
  hotplug-timer trace stock.*.counts.dat --format json
  # of another tool: offcputime-bpfcc -K -f --state 2 120 > switch.folded
  hotplug-timer trace switch.folded
"""
CONVERT_DESCRIPTION = """\
Write result files of earlier versions (hotplug-timer/1 and /2, clock-check/1) in the form of this version,
result/3. All commands read them as they are; `run --resume` continues only files of this version.
Every line is checked. A line that a crash cut short is left out. No file is overwritten.
"""
CONVERT_EPILOG = """\
examples:
  hotplug-timer convert old/*.jsonl --output-dir new
  # continue a run that an earlier version began
  hotplug-timer convert stock.jsonl -o stock-3.jsonl
  hotplug-timer run smt=off smt=on --variant stock --iterations 10 --output stock-3.jsonl --resume

Traces are looked for beside the result file that names them: move them along.
"""
REPORT_DESCRIPTION = """\
Write report.html, one file that needs no other and no network, and summary.json into a directory. In it are
what `compare` prints, every sample, counts, host and kernels, the data to save, and the time per state and
off-CPU time of the traces that `run --trace` left beside the result files. A trace.dat is read through
trace-cmd; where a text of the same name (.txt, from `trace-cmd report -t -O parent`) lies beside it, that is
read instead.
"""
REPORT_EPILOG = """\
examples:
  hotplug-timer report results/raw/*.jsonl --output-dir results/demo --line 6.12
  # traces that lie elsewhere, or that no result file names
  hotplug-timer report stock.jsonl --output-dir results/stock --line 6.12 \\
      --trace traces/stock.smt=off.offcpu.dat
"""


def build_parser() -> Parser:
    """Return the whole command line."""
    parser = Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = add_commands(parser)

    target_command.add_target_commands(commands)

    pack = add_subcommand(
        commands,
        "bundle",
        summary="pack `run`, `smt` and `preflight` into one file for measured hosts",
        description="Pack `run`, `smt` and `preflight` into one Python file that needs Python 3.9.",
        examples=BUNDLE_EPILOG,
    )
    pack.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("hotplug-timer.pyz"),
        metavar="FILE",
        help="(default: %(default)s)",
    )
    pack.add_argument(
        "--script",
        action="store_true",
        help="print it as a script for python3's standard input instead, which leaves nothing on the host",
    )
    pack.set_defaults(handler=_bundle)

    compare = add_subcommand(
        commands,
        "compare",
        summary="compare variants and print a verdict",
        description=COMPARE_DESCRIPTION,
        examples=COMPARE_EPILOG,
    )
    _add_inputs(compare)
    _add_force(compare)
    add_format(compare, JUNIT)
    compare.set_defaults(handler=_compare)

    _add_rcu_variants(commands)

    _add_predict(commands)

    _add_trace(commands)

    _add_report(commands)

    _add_convert(commands)

    history_arguments.add_commands(commands)

    manual_command.add_commands(commands, build_parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return run_command(build_parser(), argv)


def _add_rcu_variants(commands: Commands) -> None:
    table = add_subcommand(
        commands,
        "rcu-variants",
        summary="hold RCU variants of CPU hotplug against the published ones",
        description=RCU_VARIANTS_DESCRIPTION,
        examples=RCU_VARIANTS_EPILOG,
    )
    table.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="result file of `run`, with its row as the variant",
    )
    table.add_argument(
        "--rows",
        default="stock,revert-442bf3aaf55a,cpuidle-expedited,rcu_expedited",
        metavar="LABELS",
        help="the rows that there have to be, separated by commas (default: %(default)s)",
    )
    output = table.add_mutually_exclusive_group()
    add_format(output)
    output.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="write rcu-variants.md, .json and .csv there instead; made when missing",
    )
    table.set_defaults(handler=_rcu_variants)


def _add_predict(commands: Commands) -> None:
    predict = add_subcommand(
        commands,
        "predict",
        summary="predict the patched kernel's seconds from costs measured on the stock one",
        description=PREDICT_DESCRIPTION,
        examples=PREDICT_EPILOG,
    )
    predict.add_argument(
        "file", type=Path, metavar="FILE", help="result file of `measure-costs`, its traces beside it"
    )
    predict.add_argument(
        "--toggled",
        type=positive,
        metavar="N",
        help="how many CPUs are switched (default: as many as smt=off takes)",
    )
    predict.add_argument(
        "--chunk",
        type=positive,
        default=64,
        metavar="N",
        help="CPUs that the patched kernel takes at once, its hotplug/bulk_chunk (default: %(default)s)",
    )
    add_format(predict)
    predict.set_defaults(handler=_predict)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="compare runs of different topologies, or emulated with real ones, all the same, with a warning",
    )


def _add_trace(commands: Commands) -> None:
    trace = add_subcommand(
        commands,
        "trace",
        summary="report where the time of a traced switch went",
        description=TRACE_DESCRIPTION,
        examples=TRACE_EPILOG,
    )
    trace.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="trace of one mode; several are added up"
    )
    trace.add_argument("--mode", choices=MODES, help="what to look for (default: what the first FILE holds)")
    trace.add_argument(
        "--top", type=positive, default=20, metavar="N", help="rows of each table (default: %(default)s)"
    )
    add_format(trace)
    trace.add_argument(
        "--folded",
        type=Path,
        metavar="FILE",
        help="write all stacks, one a line, as flamegraph.pl reads them",
    )
    trace.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw all stacks as an icicle, callers on top"
    )
    trace.set_defaults(handler=_trace)


def _add_report(commands: Commands) -> None:
    report = add_subcommand(
        commands,
        "report",
        summary="write an HTML report and summary.json",
        description=REPORT_DESCRIPTION,
        examples=REPORT_EPILOG,
    )
    _add_inputs(report)
    _add_force(report)
    report.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="made when missing")
    report.add_argument(
        "--line", required=True, metavar="VERSION", help="the kernel the variants build on, for example 6.12"
    )
    report.add_argument(
        "--trace",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a trace that is not beside its result file, or of no result file; may be given again",
    )
    report.set_defaults(handler=_report)


def _add_convert(commands: Commands) -> None:
    convert = add_subcommand(
        commands,
        "convert",
        summary="write result files of earlier versions in today's form",
        description=CONVERT_DESCRIPTION,
        examples=CONVERT_EPILOG,
    )
    convert.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="result file of `run` or of clock-check"
    )
    output = convert.add_mutually_exclusive_group()
    output.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write all records into FILE (default: print them)"
    )
    output.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="write each file into DIR, under its own name; made when missing",
    )
    convert.set_defaults(handler=_convert)


def _add_inputs(parser: argparse.ArgumentParser, files: str = "result file of `run`") -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=files)
    parser.add_argument(
        "--baseline",
        default="stock",
        metavar="VARIANT",
        help="what the others are held against (default: %(default)s)",
    )


def _bundle(arguments: argparse.Namespace) -> None:
    if arguments.script:
        sys.stdout.write(bundle.build_script().decode())
        return
    write(arguments.output, bundle.build_bundle())
    sys.stdout.write(f"{arguments.output}\n")


# The analysis pulls in scipy and matplotlib, which take a second: only where they are used.
def _compare(arguments: argparse.Namespace) -> None:
    from hotplug_timer import reader  # noqa: PLC0415
    from hotplug_timer.compare import comparison as compare  # noqa: PLC0415
    from hotplug_timer.compare import text  # noqa: PLC0415

    data = reader.read_files(arguments.files)
    comparison = compare.compare(data, arguments.baseline, arguments.force)
    text.print_notices(comparison, sys.stderr)
    print_tables(text.sheet(comparison), arguments.format, sys.stdout)


def _rcu_variants(arguments: argparse.Namespace) -> None:
    from hotplug_timer.rcu_variants import command  # noqa: PLC0415

    command.rcu_variants(arguments, sys.stdout, sys.stderr)


def _predict(arguments: argparse.Namespace) -> None:
    from hotplug_timer.predict import command  # noqa: PLC0415

    command.predict(arguments, sys.stdout, sys.stderr)


def _trace(arguments: argparse.Namespace) -> None:
    from hotplug_timer.trace.command import trace  # noqa: PLC0415

    trace(arguments, sys.stdout, sys.stderr)


def _convert(arguments: argparse.Namespace) -> None:
    from hotplug_timer.convert import convert  # noqa: PLC0415

    convert(arguments, sys.stdout, sys.stderr)


def _report(arguments: argparse.Namespace) -> None:
    from hotplug_timer.report.command import report  # noqa: PLC0415

    report(arguments, sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
