"""`kernel-qualify clock-debug`: the clock code on a kernel that checks itself, with the KUnit tests."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import clockcosts, earlysleeps, ktap, logs
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "clock-debug"
LIMIT_S = 3 * 3600
VCPUS = 8
FRAGMENTS = ("debug", "kcsan", "kunit", "kunit-kcsan")
GUESTS = {
    "ppc64le": (("timebase",), FRAGMENTS, ("combined_counter", "clockevents")),
    "x86_64": (
        clockcosts.CLOCKSOURCES,
        (*FRAGMENTS, "kunit-x86"),
        ("combined_counter", "pvclock", "clockevents"),
    ),
}
"""Clocksources, config fragments, and KUnit suites of an architecture."""
OURS = r"combined_counter|hpet|acpi_pm|pvclock|clockevents|cev_|timekeeping|decrementer"
"""Functions and files of the series, in a report of KCSAN."""
CHECKING = ("Lock dependency validator", "kcsan: enabled early")
"""What the kernel logs when it does check itself."""
LOAD = ("--threads", "8", "--seconds", "10", "--iterations", "3")
CALLS = 100_000
STEERED = ("--ppms=-500,500", "--sleeps", "0.01,0.1,1,4", "--rounds", "2")
DEADLY = "deep"
"""A kernel of x86-64 with KCSAN does not come back from memory. It also looks at what restores the CPU's
registers, and finds its own variables by one of them.
"""
KUNIT = "kunit.enable=1"
OURS_ONLY = "kunit.filter_glob=[!k]*"
"""No suite of the series begins as KCSAN's does."""
RACES = "kunit.filter_glob=kcsan.test_basic"
"""Races made on purpose: apart, as they are in the log."""
FOUND = "KCSAN: data-race in test_kernel_read / test_kernel_write"
"""What KCSAN reports of one; its test wants it in half a second, too short for emulated threads."""
SILENCE_S = 1200.0


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="run the clock code on a kernel with lockdep, KCSAN and KUnit",
        description="""Run the clock code on a kernel that checks itself: lockdep and its friends, KCSAN,
and the KUnit tests.
Proven: all KUnit tests of the series pass; under calls from more vCPUs than the host has CPUs, with
each clocksource, and with timers while the clock is steered, lockdep reports nothing, and KCSAN
nothing of the files of the series.""",
        examples="""examples:
  kernel-qualify clock-debug --arch ppc64le
  kernel-qualify clock-debug --line 7.3""",
    )
    options.add_line(parser)
    parser.add_argument(
        "--arch", choices=sorted(GUESTS), action="append", help="architecture of the guest, default: both"
    )
    options.add_variant(parser)
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return a proof for each architecture."""
    facts = options.facts(arguments, "arch")
    found = []
    for arch in [arguments.arch] if isinstance(arguments.arch, str) else arguments.arch or GUESTS:
        _, fragments, _ = GUESTS[arch]
        every = (*fragments, *earlysleeps.SUSPEND_FRAGMENTS[arch])
        order = options.order(arguments, arch=arch, cores=VCPUS, threads=1, fragments=every)
        found.append(Proof(f"{NAME}/{arch}", arguments.line, facts, partial(_find, order), LIMIT_S))
    return found


def _find(order: Order, ground: Ground) -> list[str]:
    clocksources, _, suites = GUESTS[order.arch]
    guest = ground.guest(order)
    words = ["--clocksources", *clocksources, *LOAD, "--calls", str(CALLS)]
    files = guest.clock_check()
    records = guest.alone("clocks", *words, files=files, append=f"{KUNIT} {OURS_ONLY}", silence=SILENCE_S)
    suspends = [depth for depth in earlysleeps.SUSPENDS[order.arch] if depth != DEADLY]
    steered = guest.alone("early", *STEERED, "--suspends", *suspends, files=files, silence=SILENCE_S)
    console = ground.results / "console.log"
    log = console.read_text()
    guest.alone("clocks", "--clocksources", clocksources[0], append=f"{KUNIT} {RACES}", silence=SILENCE_S)
    races = console.read_text().removeprefix(log)
    return (
        clockcosts.order_problems(records, CALLS)
        + ktap.problems(log, suites)
        + ([] if FOUND in races else ["KCSAN has not found a race made on purpose"])
        + [f"the kernel does not say: {line}" for line in CHECKING if line not in log]
        + earlysleeps.not_suspended(earlysleeps.suspended(steered), suspends)
        + [f"the kernel says: {head}" for head in logs.problems_of(log, logs.mentions(OURS))]
    )
