"""The commands that run on the measured host, and the main of the copy that travels there."""

from __future__ import annotations

import argparse
import contextlib
import json
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_host import __version__, clocksource
from hotplug_host.arguments import (
    add_host_arguments,
    add_sysroot,
    count,
    numbers,
    pause,
    positive,
    ppm,
    seconds,
)
from hotplug_host.clocks import audit, cpufreq, early, measure, probe
from hotplug_host.clocks.audit import Audit
from hotplug_host.clocks.cpus import default_threads, usable_cpus
from hotplug_host.clocks.facts import read_facts
from hotplug_host.clocks.measure import PATHS, Measurement, Watching
from hotplug_host.clocks.measured import read_measured
from hotplug_host.clocks.probe import Probe, StoppedError, stopped
from hotplug_host.clocks.session import PROGRAM, Plan, Session
from hotplug_host.clocks.steering import MOST_PPM
from hotplug_host.cpulist import format_cpulist
from hotplug_host.entry import Parser
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest
from hotplug_host.subcommands import add_commands, add_subcommand, run_command
from hotplug_host.sysfs import Sysfs

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

    #: How a command gets at the probe where none is named.
    Provider = Callable[[StopRequest], contextlib.AbstractContextManager[Probe]]

BOTH = "both"
RAW = "raw"
#: Beyond this the kernel's own clock discipline cannot follow (MAXFREQ in include/linux/timex.h).
MAX_PPM = 500.0
#: A hundred times what it takes on a machine that is not busy.
SELFTEST_S = 600.0
DESCRIPTION = "Checks clocks: what a call costs, whether they drift, and whether they ever go backwards."
SCALE_DESCRIPTION = """\
Let 1, 2, 4, ... threads read the clock at the same time, each as fast as it can, and report what a call
costs, how many there are in a second, and whether every thread gets its share. A clock that scales costs the
same with every number of threads.
"""
SCALE_EPILOG = """\
examples:
  clock-check scale
  # every clocksource this kernel has, one after the other; the one in use comes back
  clock-check scale --clocksource all --output clocks.jsonl
  hotplug-timer compare clocks.jsonl --baseline tsc
  # two kernels, the same clocksource
  clock-check scale --clocksource hpet --threads 1,8,16 --variant patched --iterations 9 --output new.jsonl

The time of a call is a thread's own: with more threads than CPUs it includes waiting for a turn. The column
"us CPU/call" leaves that out. --path vdso is what programs call; with a clocksource that can only be read in
the kernel (hpet, acpi_pm) it ends in a system call too.
"""
ORDER_DESCRIPTION = """\
Check that a call that starts after another one has returned never returns less, on whatever CPUs the two
are: all CPUs call, and every call is held against the largest value that any call has returned before.
One that is smaller is a violation. The exit code is 5 when there was one.
"""
ORDER_EPILOG = """\
examples:
  clock-check order
  # more, and of all clocksources
  clock-check order --calls 1000000000 --clocksource all --output order.jsonl

"after another CPU's" counts calls whose bound was another thread's: the more, the more the check has seen.
"""
DRIFT_DESCRIPTION = """\
Hold the system clock (CLOCK_MONOTONIC) against another clock, from each CPU in turn: by how many parts per
million it departs, and whether it jumps. Before and after, every CPU's clock is held against the first CPU's.
All of it is by bounds that hold whatever interrupts the reading: what is called wrong is proven wrong.
"""
DRIFT_EPILOG = """\
examples:
  clock-check drift
  clock-check drift --reference /dev/ptp0 --seconds 60
  # a real-time clock has whole seconds: each sample takes one, so be patient, or name few CPUs
  clock-check drift --reference /dev/rtc0 --seconds 600 --cpus 0,8 --output drift.jsonl

raw is CLOCK_MONOTONIC_RAW: the same counter without what NTP corrects. It shows corrections and jumps, and no
fault that counter and system clock share; for that an independent clock is needed.
"""
PSTATES_DESCRIPTION = """\
Hold all CPUs at each of their frequency levels in turn, the highest first, and watch for drift at each, as
`drift` does. The limits (scaling_min_freq, scaling_max_freq) are put back after each level and on every way
out; the governor stays. Ends with code 3 on machines whose frequencies are not the kernel's to set.
"""
PSTATES_EPILOG = """\
examples:
  clock-check pstates --seconds 10 --reference /dev/ptp0
  clock-check pstates --output pstates.jsonl
"""
EARLY_DESCRIPTION = """\
Let the system clock run fast and slow as NTP does, by adjtimex, and look whether timers still fire when they
should: a sleep is programmed as so many ticks of the CPU's timer, and those have to be what it takes at the
rate the clock has then. Counts the timer interrupts of each sleep as well, and how early and late they are.
"""
EARLY_EPILOG = """\
examples:
  clock-check early
  clock-check early --ppm=-500,-100,0,100,500 --sleeps 0.01,1,10,30 --cpu 8
  clock-check early --json > patched.json

The system clock is off by up to 0.5 ms for each second of this. Its rate, and what it has gained, are put
back by a process of its own, also if this one is killed. --most-ppm 1 is what is wanted: the exit code is 5
beyond. What rounding to a tick and to a nanosecond explains is no error.
"""
SELFTEST_DESCRIPTION = """\
Check the checks on this machine: clocks that are made wrong on purpose have to be found wrong, and the
machine's own has to be found right. Takes some seconds.
"""
SELFTEST_EPILOG = """\
examples:
  clock-check selftest
"""
AUDIT_DESCRIPTION = """\
Say what this host shows of its clocks: clocksources, what the CPUs say of their TSC, words of the kernel's
command line, what the kernel logged about clocks, the hypervisor; and which clocksource it should use, with
the reason. Reads only. Results that were measured on it just now count as well.
"""
AUDIT_EPILOG = """\
examples:
  clock-check audit
  clock-check order --output order.jsonl
  clock-check scale --output scale.jsonl --clocksource all
  clock-check audit --measured order.jsonl --measured scale.jsonl --json

The one recommended is the fastest that nothing speaks against. Only root may read the kernel's log on
most hosts: without it, the audit reports that.
"""


def add_target_commands(commands: Commands, provider: Provider) -> None:
    """Add the commands that run on the measured host; PROVIDER gives the probe where none is named."""
    for name, summary, description, epilog, add_arguments, iterations, plan in (
        ("scale", "what a call costs", SCALE_DESCRIPTION, SCALE_EPILOG, _add_scale, 5, _plan_scale),
        ("order", "whether it goes backwards", ORDER_DESCRIPTION, ORDER_EPILOG, _add_order, 1, _plan_order),
        ("drift", "whether it drifts", DRIFT_DESCRIPTION, DRIFT_EPILOG, _add_drift, 1, _plan_drift),
        (
            "pstates",
            "the same per frequency",
            PSTATES_DESCRIPTION,
            PSTATES_EPILOG,
            _add_drift,
            1,
            _plan_pstates,
        ),
    ):
        parser = add_subcommand(commands, name, summary=summary, description=description, examples=epilog)
        add_arguments(parser)
        _add_common(parser, iterations)
        parser.set_defaults(handler=_handler(plan, provider))
    parser = add_subcommand(
        commands,
        "early",
        summary="whether timers follow a steered clock",
        description=EARLY_DESCRIPTION,
        examples=EARLY_EPILOG,
    )
    _add_early(parser)
    parser.set_defaults(handler=_early)
    parser = add_subcommand(
        commands,
        "selftest",
        summary="check the checks",
        description=SELFTEST_DESCRIPTION,
        examples=SELFTEST_EPILOG,
    )
    _add_where(parser)
    parser.set_defaults(handler=_selftest_handler(provider))
    parser = add_subcommand(
        commands,
        "audit",
        summary="which one to use, and why",
        description=AUDIT_DESCRIPTION,
        examples=AUDIT_EPILOG,
    )
    _add_audit(parser)
    parser.set_defaults(handler=_audit)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the travelling copy's command line; returns the exit code."""
    parser = Parser(prog=PROGRAM, description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    add_target_commands(add_commands(parser), bundled_probe)
    return run_command(parser, argv)


def bundled_probe(stop: StopRequest) -> contextlib.AbstractContextManager[Probe]:
    """Give the probe that this copy carries; ToolError (ENVIRONMENT) when it carries none."""
    try:
        content = pkgutil.get_data("hotplug_host.clocks", "clock-probe")
    except OSError:
        content = None
    if content is None:
        raise ToolError("this copy carries no clock-probe", "name one with --probe", ExitCode.ENVIRONMENT)
    return probe.opened(content, stop)


def _add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=numbers,
        metavar="LIST",
        help="numbers of threads, such as 1-4,8 (default: 1, 2, 4, ... and as many as there are CPUs)",
    )
    _add_path(parser)
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=1.0,
        metavar="S",
        help="how long each measurement lasts (default: %(default)s)",
    )


def _add_order(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="how many threads call (default: one on each CPU)"
    )
    parser.add_argument(
        "--calls",
        type=positive,
        default=10_000_000,
        metavar="N",
        help="how many calls they make together (default: %(default)s)",
    )
    _add_path(parser)


def _add_drift(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reference",
        default=RAW,
        metavar="CLOCK",
        help="raw, or a clock device: /dev/rtcN, /dev/ptpN (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=10.0,
        metavar="S",
        help="how long to watch (default: %(default)s)",
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        default=0.1,
        metavar="S",
        help="from the beginning of a round over all CPUs to that of the next (default: %(default)s)",
    )
    parser.add_argument(
        "--max-ppm",
        type=ppm,
        default=MAX_PPM,
        metavar="PPM",
        help="a clock that departs by more is wrong; what is within is no jump (default: %(default)s)",
    )


def _add_early(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ppm",
        type=_ppms,
        default=(-500.0, 0.0, 500.0),
        metavar="LIST",
        help="steer the clock by so many parts per million, one after the other (default: -500,0,500)",
    )
    parser.add_argument(
        "--sleeps",
        type=_lengths,
        default=(0.01, 0.1, 1.0, 10.0, 30.0),
        metavar="LIST",
        help="seconds to sleep, one after the other at each rate (default: 0.01,0.1,1,10,30)",
    )
    parser.add_argument(
        "--cpu", type=count, metavar="N", help="sleep on this one (default: the last that is online)"
    )
    parser.add_argument(
        "--most-ppm",
        type=ppm,
        default=1.0,
        metavar="PPM",
        help="what is programmed is wrong beyond (default: %(default)s)",
    )
    parser.add_argument(
        "--force", action="store_true", help="also when NTP keeps the clock, which then disturbs both"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    add_sysroot(parser)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measured",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="a result file of this host, as --output of the other commands writes it; may be given again",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on one line")
    add_host_arguments(parser)
    add_sysroot(parser)


def _add_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--path",
        choices=(*PATHS, BOTH),
        default=BOTH,
        help="call clock_gettime() as programs do, or the system call (default: %(default)s)",
    )


def _add_common(parser: argparse.ArgumentParser, iterations: int) -> None:
    parser.add_argument("--cpus", metavar="LIST", help="measure on these (default: all that are online)")
    parser.add_argument(
        "--clocksource",
        action="append",
        default=[],
        metavar="NAME",
        help="switch to this clocksource for the run and back afterwards; several by commas, all for each"
        " that there is (default: the one in use)",
    )
    parser.add_argument(
        "--iterations", type=positive, default=iterations, metavar="N", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--warmup",
        type=count,
        default=0,
        metavar="N",
        help="iterations before those that count (default: %(default)s)",
    )
    parser.add_argument(
        "--settle",
        type=pause,
        default=0.0,
        metavar="S",
        help="seconds to wait after each measurement (default: %(default)s)",
    )
    parser.add_argument("--variant", help="the variant that is measured (default: the clocksource's name)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="result file (JSON Lines) to write; without, none is"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=3600.0,
        metavar="S",
        help="seconds that one measurement may take (default: %(default)s)",
    )
    add_host_arguments(parser)
    _add_where(parser)


def _add_where(parser: argparse.ArgumentParser) -> None:
    add_sysroot(parser)
    parser.add_argument(
        "--probe", type=Path, metavar="FILE", help="use this clock-probe, not the one that is part"
    )


def _handler(
    plan: Callable[
        [argparse.Namespace, Sysfs, tuple[int, ...]], tuple[Sequence[Measurement], Mapping[str, object]]
    ],
    provider: Provider,
) -> Callable[[argparse.Namespace], None]:
    def handle(arguments: argparse.Namespace) -> None:
        fs = Sysfs(arguments.sysroot)
        cpus = usable_cpus(fs, arguments.cpus)
        names = clocksource.choose(fs, clocksource.read_clocksources(fs), arguments.clocksource)
        if arguments.variant is not None and len(names) > 1:
            raise ToolError(
                f"--variant {arguments.variant} cannot name {len(names)} clocksources",
                "leave it out (each is called by its name), or give one --clocksource",
                ExitCode.USAGE,
            )
        measurements, settings = plan(arguments, fs, cpus)
        with contextlib.closing(StopRequest()) as stop, _probe(arguments, provider, stop) as chosen:
            Session(
                fs,
                Plan(
                    clocksources=names,
                    variant=arguments.variant,
                    cpus=cpus,
                    measurements=tuple(measurements),
                    iterations=arguments.iterations,
                    warmup=arguments.warmup,
                    settle_s=arguments.settle,
                    timeout_s=arguments.timeout,
                    settings={"command": arguments.command, **settings},
                    boot_method=arguments.boot_method,
                    emulated=arguments.emulated,
                    output=arguments.output,
                ),
                chosen,
                stop,
                out=sys.stdout,
                errors=sys.stderr,
            ).execute()

    return handle


def _selftest_handler(provider: Provider) -> Callable[[argparse.Namespace], None]:
    def handle(arguments: argparse.Namespace) -> None:
        cpus = usable_cpus(Sysfs(arguments.sysroot), None)
        with contextlib.closing(StopRequest()) as stop, _probe(arguments, provider, stop) as chosen:
            with stop.installed():
                try:
                    line = chosen.one(["selftest", "--cpus", format_cpulist(cpus)], SELFTEST_S)
                except StoppedError:
                    raise stopped(stop, "nothing was changed") from None
            sys.stdout.write(f"{line['checks']} checks, all passed\n")

    return handle


def _early(arguments: argparse.Namespace) -> None:
    fs = Sysfs(arguments.sysroot)
    cpu = usable_cpus(fs, None if arguments.cpu is None else str(arguments.cpu))[-1]
    plan = early.Plan(cpu, arguments.ppm, arguments.sleeps, arguments.most_ppm, arguments.force)
    with contextlib.closing(StopRequest()) as stop:
        early.check(fs, plan, stop, as_json=arguments.json)


def _audit(arguments: argparse.Namespace) -> None:
    measured = read_measured(arguments.measured)
    facts = read_facts(Sysfs(arguments.sysroot), arguments.boot_method, arguments.emulated)
    found = Audit(facts, measured)
    sys.stdout.write(f"{json.dumps(audit.record(found))}\n" if arguments.json else audit.text(found))


def _probe(
    arguments: argparse.Namespace, provider: Provider, stop: StopRequest
) -> contextlib.AbstractContextManager[Probe]:
    return contextlib.nullcontext(probe.named(arguments.probe, stop)) if arguments.probe else provider(stop)


def _plan_scale(
    arguments: argparse.Namespace, fs: Sysfs, cpus: tuple[int, ...]
) -> tuple[Sequence[Measurement], Mapping[str, object]]:
    threads = arguments.threads or default_threads(len(cpus))
    if max(threads) > len(cpus):
        _note(
            f"up to {max(threads)} threads share {len(cpus)} CPUs: the time of a call includes waiting for"
            " a turn"
        )
    measurements = [
        measure.scale(path, number, arguments.seconds) for path in _paths(arguments) for number in threads
    ]
    return measurements, {"seconds": arguments.seconds}


def _plan_order(
    arguments: argparse.Namespace, fs: Sysfs, cpus: tuple[int, ...]
) -> tuple[Sequence[Measurement], Mapping[str, object]]:
    threads = arguments.threads or len(cpus)
    if len(cpus) == 1:
        _note("one CPU alone cannot go back against another: this checks little")
    measurements = [measure.order(path, threads, arguments.calls) for path in _paths(arguments)]
    return measurements, {"calls": arguments.calls}


def _plan_drift(
    arguments: argparse.Namespace, fs: Sysfs, cpus: tuple[int, ...]
) -> tuple[Sequence[Measurement], Mapping[str, object]]:
    return [measure.drift(_watching(arguments))], _watching_settings(arguments)


def _plan_pstates(
    arguments: argparse.Namespace, fs: Sysfs, cpus: tuple[int, ...]
) -> tuple[Sequence[Measurement], Mapping[str, object]]:
    policies = cpufreq.read_policies(fs)
    beyond = sorted({level for policy in policies for level in policy.beyond})
    if beyond:
        _note(f"left out, as they are beyond the limits that are set: {', '.join(map(str, beyond))} kHz")
    watching = _watching(arguments)
    steps = cpufreq.walk(policies)
    return [measure.pstates(fs, watching, policies, step) for step in steps], _watching_settings(arguments)


def _watching(arguments: argparse.Namespace) -> Watching:
    if arguments.reference == RAW:
        _note("raw is the same counter as the system clock: it shows corrections and jumps, no common fault")
    elif not Path(arguments.reference).exists():
        raise ToolError(
            f"--reference {arguments.reference}: no such device",
            "look for /dev/rtc* and /dev/ptp*, or use raw",
            ExitCode.ENVIRONMENT,
        )
    return Watching(arguments.reference, arguments.seconds, arguments.interval, arguments.max_ppm)


def _watching_settings(arguments: argparse.Namespace) -> Mapping[str, object]:
    return {
        "reference": arguments.reference,
        "seconds": arguments.seconds,
        "interval_s": arguments.interval,
        "max_ppm": arguments.max_ppm,
    }


def _paths(arguments: argparse.Namespace) -> tuple[str, ...]:
    return PATHS if arguments.path == BOTH else (arguments.path,)


def _note(text: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {text}\n")


def _ppms(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(word) for word in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(abs(number) <= MOST_PPM for number in numbers):
        raise argparse.ArgumentTypeError(
            f"'{text}' is no list of numbers from -500 to 500, such as -500,0,37"
        )
    return numbers


def _lengths(text: str) -> tuple[float, ...]:
    return tuple(seconds(word) for word in text.split(","))
