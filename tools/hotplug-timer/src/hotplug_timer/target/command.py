"""The `run` command: its options, and its main for the copy that travels to measured hosts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hotplug_timer import __version__
from hotplug_timer.errors import ExitCode, ToolError
from hotplug_timer.target.runner import Runner, Settings
from hotplug_timer.target.signals import StopRequest
from hotplug_timer.target.switch import VIA_CHOICES, parse_operation
from hotplug_timer.target.sysfs import Sysfs

RUN_SUMMARY = "time SMT switches on this host"
RUN_DESCRIPTION = """\
Time SMT switches on this host. The OPERATIONs form a cycle that every iteration goes through once,
in order. Each transition is verified against cores x SMT, and recorded on disk before the next one.
The SMT state and the exact set of online CPUs from before come back on every way out, Ctrl-C included.
"""
RUN_EPILOG = """\
examples:
  # ten times off and on: seconds first, then one counted round
  hotplug-timer run smt=off smt=on --label stock --iterations 10 --output stock.jsonl
  # only off; SMT comes on again between the iterations, untimed
  hotplug-timer run smt=off --label patched --iterations 5 --output patched.jsonl
  # go on after a Ctrl-C, a full disk or a reboot
  hotplug-timer run smt=off smt=on --label stock --iterations 10 --output stock.jsonl --resume

A second Ctrl-C ends the switch that is running instead of waiting for it.
"""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument("operations", nargs="+", metavar="OPERATION", help="smt=off, smt=on or smt=K")
    parser.add_argument("--label", required=True, help="the variant that is measured, for example stock")
    parser.add_argument("--iterations", type=int, required=True, metavar="N", help="timed iterations")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="result file (JSON Lines) to write"
    )
    parser.add_argument(
        "--count-iterations",
        type=int,
        default=1,
        metavar="N",
        help="iterations after the timed ones that count grace-period waits, stop_machine rendezvous"
        " and sched-domain rebuilds (default: %(default)s)",
    )
    parser.add_argument(
        "--warmup", type=int, default=0, metavar="N", help="iterations before the timed ones (default: 0)"
    )
    parser.add_argument(
        "--settle",
        type=float,
        default=1.0,
        metavar="S",
        help="seconds to wait after each transition (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=7200.0,
        metavar="S",
        help="seconds one transition may take (default: %(default)s)",
    )
    parser.add_argument("--resume", action="store_true", help="continue FILE where an earlier run left off")
    parser.add_argument(
        "--sysroot",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="use DIR/sys and DIR/proc, for tests without root (default: %(default)s)",
    )
    parser.add_argument(
        "--via",
        choices=VIA_CHOICES,
        default="auto",
        help="what does the switch: ppc64_cpu, a write to smt/control, or auto, the first of them that"
        " is there (default: %(default)s)",
    )
    parser.add_argument(
        "--boot-method",
        choices=("kexec", "firmware"),
        default="unknown",
        help="how this kernel was started; recorded, so that mixed ones get noticed",
    )
    parser.add_argument(
        "--emulated",
        action="store_true",
        help="record that the CPUs are emulated where the host does not show it itself",
    )


def run(arguments: argparse.Namespace) -> None:
    """Do what `run` was asked for; ToolError on everything but success."""
    settings = Settings(
        operations=tuple(parse_operation(text) for text in arguments.operations),
        label=arguments.label,
        iterations=arguments.iterations,
        count_iterations=arguments.count_iterations,
        warmup=arguments.warmup,
        settle_s=arguments.settle,
        timeout_s=arguments.timeout,
        via=arguments.via,
        boot_method=arguments.boot_method,
        emulated=arguments.emulated,
        output=arguments.output,
        resume=arguments.resume,
    )
    stop = StopRequest()
    try:
        Runner(settings, Sysfs(arguments.sysroot), stop).execute()
    finally:
        stop.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the travelling copy's command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="hotplug-timer", description="Times SMT switches on this host.")
    parser.add_argument("--version", action="version", version=f"hotplug-timer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_run_arguments(
        commands.add_parser(
            "run",
            help=RUN_SUMMARY,
            description=RUN_DESCRIPTION,
            epilog=RUN_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    return guarded(run, parser.parse_args(argv))


def guarded(command: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> int:
    """Run a command; a foreseeable fault becomes one line on stderr and its exit code."""
    try:
        command(arguments)
    except ToolError as error:
        sys.stderr.write(f"hotplug-timer: error: {error}\n")
        return int(error.code)
    except KeyboardInterrupt:
        sys.stderr.write("hotplug-timer: error: interrupted; nothing was changed\n")
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK)
