"""The clock code on a kernel that checks itself: lockdep and its friends, and KCSAN, with the KUnit tests.

Proven: all KUnit tests of the series pass; under calls from more vCPUs than the host has CPUs, with each
clocksource, and with timers while the clock is steered, lockdep says nothing, and KCSAN nothing of the files
of the series.
"""

from dataclasses import replace

import clockcosts
import earlysleeps
import ktap
import logs
import pytest
from proving import CLOCK_CHECK, Proving, none

pytestmark = pytest.mark.timeout(3 * 3600)
VCPUS = 8
TOPICS = ("debug", "kcsan", "kunit", "kunit-kcsan")
GUESTS = {
    "ppc64le": (("timebase",), TOPICS, ("combined_counter", "clockevents")),
    "x86_64": (
        clockcosts.CLOCKSOURCES,
        (*TOPICS, "kunit-x86"),
        ("combined_counter", "pvclock", "clockevents"),
    ),
}
"""Clocksources, configuration topics, and KUnit suites of an architecture."""
OURS = r"combined_counter|hpet|acpi_pm|pvclock|clockevents|cev_|timekeeping|decrementer"
"""Functions and files of the series, in a report of KCSAN."""
CHECKING = ("Lock dependency validator", "kcsan: enabled early")
"""What the kernel says when it does check itself."""
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
"""What KCSAN says of one; its test wants it in half a second, too short for emulated threads."""
SILENCE_S = 1200.0


@pytest.mark.parametrize("arch", GUESTS)
def test_clocks_with_lockdep_and_kcsan(proving: Proving, arch: str) -> None:
    clocksources, topics, suites = GUESTS[arch]
    topics = (*topics, *earlysleeps.SUSPEND_TOPICS[arch])
    proving.order = replace(proving.order, arch=arch, cores=VCPUS, threads=1, topics=topics)
    words = ["--clocksources", *clocksources, *LOAD, "--calls", str(CALLS)]
    files = {CLOCK_CHECK: proving.clock_check()}
    records = proving.alone("clocks", *words, files=files, append=f"{KUNIT} {OURS_ONLY}", silence=SILENCE_S)
    suspends = [depth for depth in earlysleeps.SUSPENDS[arch] if depth != DEADLY]
    steered = proving.alone("early", *STEERED, "--suspends", *suspends, files=files, silence=SILENCE_S)
    console = proving.results / "console.log"
    log = console.read_text()
    proving.alone("clocks", "--clocksources", clocksources[0], append=f"{KUNIT} {RACES}", silence=SILENCE_S)
    races = console.read_text().removeprefix(log)
    none(
        clockcosts.order_problems(records, CALLS)
        + ktap.problems(log, suites)
        + ([] if FOUND in races else ["KCSAN has not found a race made on purpose"])
        + [f"the kernel does not say: {line}" for line in CHECKING if line not in log]
        + earlysleeps.not_suspended(earlysleeps.suspended(steered), suspends)
        + [f"the kernel says: {head}" for head in logs.problems_of(log, OURS)]
    )
