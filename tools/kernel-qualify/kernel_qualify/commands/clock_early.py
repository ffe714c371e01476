"""`kernel-qualify clock-early`: timers under a steered clock, and what programming them costs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.kernel import series
from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import keeping, options
from kernel_qualify.judge import earlysleeps
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "clock-early"
LIMIT_S = 6 * 3600
PPMS = "-500,0,500"
SLEEPS = "0.01,0.1,1,4"
SILENCE_S = 1200.0
QUIET = "loglevel=1"


@dataclass(frozen=True)
class Timer:
    """A timer's guest: architecture, cores, and words for the kernel; `sleeping` ones while tasks sleep."""

    arch: str
    cores: int
    words: str = ""
    sleeping: str = ""


TIMERS = {
    "decrementer": Timer("ppc64le", 2),
    "lapic": Timer("x86_64", 2, "tsc=reliable"),
    # Without the APIC's timer, and with one CPU, it is the CPU's own. The TSC's rate would be one that was
    # measured at boot.
    "hpet": Timer("x86_64", 1, "tsc=reliable nolapic_timer hpet=force", "clocksource=hpet"),
}


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="watch timers under a steered clock, stock against patched",
        description="""Watch timers while the clock is steered: what is programmed, which interrupts
come, what that costs. In bare guests: POWER with the decrementer; x86-64 with the local APIC's
timer, and with one CPU and the HPET. The cost is counted in guests of their own, with one CPU,
whose clocks count instructions.
Proven: timers follow the clock to 1 ppm, and are neither early nor later than on stock, also after
a suspend.""",
        examples="""examples:
  kernel-qualify clock-early --timer decrementer --rounds 1
  kernel-qualify clock-early --rounds 5 --sleeps 0.01,0.1,1,4,30""",
    )
    options.add_line(parser)
    options.add_fragments(parser)
    parser.add_argument("--timer", choices=sorted(TIMERS), action="append", help="default: all of them")
    parser.add_argument(
        "--rounds", type=positive, default=3, metavar="N", help="sleeps of each kind, default: %(default)s"
    )
    parser.add_argument(
        "--sleeps",
        type=lengths,
        default=SLEEPS,
        metavar="S,...",
        help="their lengths in seconds, by commas, default: %(default)s",
    )
    options.add_keeping(parser)


def lengths(text: str) -> str:
    """Check lengths of sleeps, by commas."""
    try:
        well = all(0 < float(word) < float("inf") for word in text.split(","))
    except ValueError:
        well = False
    if not well:
        raise argparse.ArgumentTypeError(f"'{text}' are not positive numbers of seconds, by commas")
    return text


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return a proof for each timer."""
    facts = options.facts(arguments, "timer")
    found = []
    for name in arguments.timer or TIMERS:
        timer = TIMERS[name]
        fragments = (*arguments.fragment, *earlysleeps.SUSPEND_FRAGMENTS[timer.arch])
        order = options.order(arguments, arch=timer.arch, cores=timer.cores, threads=1, fragments=fragments)
        find = partial(_find, order, timer, arguments.rounds, arguments.sleeps)
        found.append(Proof(f"{NAME}/{name}", arguments.line, facts, find, LIMIT_S))
    return found


def _find(order: Order, timer: Timer, rounds: int, sleeps: str, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    files = guest.clock_check()
    script = ["early", f"--ppms={PPMS}", "--sleeps", sleeps, "--rounds", str(rounds)]
    script += ["--suspends", *earlysleeps.SUSPENDS[order.arch]]
    found, programming = {}, {}
    for kernel in series.VARIANTS:
        append = f"{QUIET} {timer.words}".strip()
        guest.order = replace(order, variant=kernel, cores=1)
        programming[kernel] = guest.alone("programming", append=append, icount=True)
        guest.order = replace(order, variant=kernel)
        append = f"{append} {timer.sleeping}".strip()
        found[kernel] = guest.alone(*script, files=files, append=append, silence=SILENCE_S)
    run = earlysleeps.Run(
        order.line,
        order.arch,
        next(record["name"] for record in found[series.PATCHED] if record["kind"] == "device"),
        {kernel: records[0]["release"] for kernel, records in found.items()},
        tuple(sleep for kernel, records in found.items() for sleep in earlysleeps.sleeps(kernel, records)),
        tuple(cost for kernel, records in programming.items() for cost in earlysleeps.costs(kernel, records)),
        {kernel: earlysleeps.suspended(records) for kernel, records in found.items()},
        {kernel: earlysleeps.rate(records) for kernel, records in found.items()},
    )
    keeping.save(run, ground.results / "early.json")
    out(earlysleeps.table([run]).rstrip())
    return earlysleeps.problems(run)
