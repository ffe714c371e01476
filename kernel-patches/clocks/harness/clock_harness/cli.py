"""The command line: measure, check, and prove."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clock_harness import build, devices, measure, model, sources, table
from clock_harness.measure import Counter, Harness
from hotplug_common import scratch
from hotplug_common.arguments import line
from hotplug_common.command import in_lab
from hotplug_common.kernel import lines, series
from hotplug_common.paths import Paths
from hotplug_common.tables import print_tables
from hotplug_common.ui import Say, out
from hotplug_host.arguments import cpus, numbers, positive
from hotplug_host.entry import Parser
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_commands, run_command

LATENCIES_NS = (500, 1000, 5000)
"""Reads of an HPET and of an ACPI PM timer take from half a microsecond to a few."""
CHECK_BITS = 24
"""A counter of few bits wraps often: one of 24 every 17 ms."""


def parser() -> Parser:
    """Build the command line parser."""
    top = Parser(prog="clock-harness", description="How CPUs share a clock: measured, checked and proven.")
    commands = add_commands(top)

    shared = commands.add_parser("shared", help="measure reads of one slow counter that all CPUs share")
    shared.add_argument(
        "--latency",
        type=positive,
        action="append",
        metavar="NS",
        help=f"how long a read takes, repeatable (default: {', '.join(map(str, LATENCIES_NS))})",
    )
    shared.add_argument("--parallel", action="store_true", help="reads do not wait for each other")
    shared.set_defaults(handler=in_lab(_shared))
    _add_measuring(shared)
    _add_together(shared)

    percpu = commands.add_parser("percpu", help="measure reads of counters that each CPU has of its own")
    percpu.set_defaults(handler=in_lab(_percpu))
    _add_measuring(percpu)
    _add_together(percpu)

    check = commands.add_parser("check", help="look at each value: order, and age")
    check.set_defaults(handler=in_lab(_check))
    _add_measuring(check)

    update = commands.add_parser(
        "devices", help="measure what it takes to tell all clock-event devices the rate of the clock"
    )
    update.add_argument(
        "--devices",
        type=numbers,
        default=(16, 128, 1024),
        metavar="LIST",
        help="how many there are (default: 16,128,1024)",
    )
    update.add_argument(
        "--rounds", type=positive, default=1000, help="medians of so many (default: %(default)s)"
    )
    _add_cpus(update, "the one that tells them, and the one that has used them last (default: the first two)")
    _add_line(update)
    update.set_defaults(handler=in_lab(_devices))

    proof = commands.add_parser("model", help="look at every interleaving of the models, with spin")
    proof.add_argument(
        "--long", action="store_true", help="also the large ones: a minute more, and a GB of memory"
    )
    proof.set_defaults(handler=in_lab(_model))
    return top


def _add_measuring(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--threads",
        type=numbers,
        default=(1, 2, 4, 8, 16),
        metavar="LIST",
        help="how many threads read at the same time (default: 1,2,4,8,16)",
    )
    _add_cpus(command, "threads are pinned to these in turn (default: all)")
    command.add_argument("--ms", type=positive, default=500, help="length of a run (default: %(default)s)")
    command.add_argument(
        "--rounds", type=positive, default=5, help="medians of so many (default: %(default)s)"
    )
    _add_line(command)
    command.add_argument("--json", type=Path, metavar="FILE", help="append each run to FILE, one a line")


def _add_cpus(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--cpus", type=cpus, metavar="LIST", help=what)


def _add_line(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--line",
        type=line,
        default=lines.DEFAULT,
        metavar="LINE",
        help="the kernel line whose patches to take (default: %(default)s)",
    )


def _add_together(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--together",
        action="store_true",
        help="count only while all threads run, for a busy machine; no more threads than CPUs",
    )


def _cpus(arguments: argparse.Namespace) -> Sequence[int]:
    """Return the CPUs to use; ToolError (USAGE) for those that are not ours."""
    usable = os.sched_getaffinity(0)
    cpus: Sequence[int] = arguments.cpus or sorted(usable)
    if not usable.issuperset(cpus):
        wrong = ", ".join(str(cpu) for cpu in cpus if cpu not in usable)
        raise ToolError(f"no such CPU: {wrong}", f"choose of {sorted(usable)}", ExitCode.USAGE)
    return cpus


@contextmanager
def _harness(arguments: argparse.Namespace, paths: Paths) -> Iterator[Harness]:
    """Build the harness for a while; ToolError (USAGE) for CPUs that are not ours to use."""
    cpus = _cpus(arguments)
    if getattr(arguments, "together", False) and max(arguments.threads) > len(set(cpus)):
        raise ToolError(
            f"{max(arguments.threads)} threads cannot run together on {len(set(cpus))} CPUs",
            "give fewer --threads or more --cpus",
            ExitCode.USAGE,
        )
    patches = series.load(paths.patches, arguments.line, series.PATCHED)
    with scratch.folder(paths.scratch, "clock-harness") as folder:
        program = build.build(sources.kernel_code(patches), folder)
        yield Harness(program, cpus, arguments.ms)


def _shared(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    latencies = arguments.latency or LATENCIES_NS
    counters = [Counter(latency, serial=not arguments.parallel) for latency in latencies]
    return _measure(arguments, paths, say, measure.SHARED, counters)


def _percpu(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    return _measure(arguments, paths, say, measure.PERCPU, [Counter(0, serial=False)])


def _measure(
    arguments: argparse.Namespace,
    paths: Paths,
    say: Say,
    algorithms: Sequence[str],
    counters: Sequence[Counter],
) -> int:
    with _harness(arguments, paths) as harness:
        for counter in counters:
            say(f"a read takes {counter.latency_ns} ns")
            run = harness.together if arguments.together else harness.measure
            cells = measure.rounds(run, algorithms, arguments.threads, counter, arguments.rounds)
            _keep(arguments, [sample for cell in cells for sample in cell.samples])
            out(f"us per call (processor time), a read taking {counter.latency_ns} ns")
            out(_conditions(arguments, harness))
            print_tables(table.speeds(cells), "table", sys.stdout)
            out("")
    return ExitCode.OK


def _check(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    """Check all algorithms; what may go backwards, by NMIs, is what is upstream."""
    with _harness(arguments, paths) as harness:
        samples = []
        for algorithm in (*measure.SHARED, *measure.PERCPU):
            say(algorithm)
            for threads in arguments.threads:
                samples += [
                    harness.check(algorithm, threads, Counter(LATENCIES_NS[0], bits=CHECK_BITS))
                    for _ in range(arguments.rounds)
                ]
    _keep(arguments, samples)
    print_tables(table.checks(samples), "table", sys.stdout)
    ours = [sample for sample in samples if sample.algorithm in ("combined", "pvclock")]
    return ExitCode.OPERATION if any(sample.violations for sample in ours) else ExitCode.OK


def _devices(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    """Tell devices the rate while another CPU has used them, and while the same one has."""
    cpus = _cpus(arguments)
    if len(cpus) < 2:
        raise ToolError("one CPU has no other one", "give two --cpus", ExitCode.USAGE)
    patches = series.load(paths.patches, arguments.line, series.PATCHED)
    rows = []
    with scratch.folder(paths.scratch, "clock-harness") as folder:
        program = build.build_devices(sources.adjust_code(patches), folder)
        for count in arguments.devices:
            say(f"{count} devices")
            rows += [devices.told(program, count, cpus[0], user, arguments.rounds) for user in cpus[:2]]
    out(f"us to tell all devices the rate of the clock, medians of {arguments.rounds} rounds")
    print_tables(table.devices(rows), "table", sys.stdout)
    return ExitCode.OK


def _model(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    wrong = False
    for claim in (*model.QUICK, *(model.LONG if arguments.long else ())):
        say(claim.says)
        with scratch.folder(paths.scratch, "model") as folder:
            verdict = model.verify(claim, folder)
        well = model.as_claimed(claim, verdict)
        found = f"({verdict.violated}) can fail" if verdict.violated else "holds"
        out(f"{'ok ' if well else 'NOT'} {claim.says}: {found}, {verdict.states} states")
        wrong = wrong or not well
    return ExitCode.OPERATION if wrong else ExitCode.OK


def _conditions(arguments: argparse.Namespace, harness: Harness) -> str:
    cpus = len(set(harness.cpus))
    together = ", while all threads ran" if arguments.together else ""
    return f"threads on {cpus} CPUs{together}, medians of {arguments.rounds} runs of {arguments.ms} ms"


def _keep(arguments: argparse.Namespace, samples: Sequence[measure.Sample]) -> None:
    if arguments.json:
        with arguments.json.open("a") as file:
            file.write(measure.json_lines(samples))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return run_command(parser(), argv)
