"""The clock code on a kernel that checks itself: lockdep and its friends, and KCSAN, with the KUnit tests.

Proven: all KUnit tests of the series pass; under calls from more vCPUs than the host has CPUs, with each
clocksource, and with timers while the clock is steered, lockdep says nothing, and KCSAN nothing of the files
of the series.
"""

from dataclasses import replace

import clockcosts
import ktap
import logs
import pytest
from proving import CLOCK_CHECK, Proving, none

pytestmark = pytest.mark.timeout(3 * 3600)
VCPUS = 8
TOPICS = ("debug", "kcsan", "kunit")
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
STEERED = ("--ppms=-500,500", "--sleeps", "0.01,0.1,1,4")
KUNIT = "kunit.enable=1"
SILENCE_S = 1200.0


@pytest.mark.parametrize("arch", GUESTS)
def test_clocks_with_lockdep_and_kcsan(proving: Proving, arch: str) -> None:
    clocksources, topics, suites = GUESTS[arch]
    proving.order = replace(proving.order, arch=arch, cores=VCPUS, threads=1, topics=topics)
    words = ["--clocksources", *clocksources, *LOAD, "--calls", str(CALLS)]
    files = {CLOCK_CHECK: proving.clock_check()}
    records = proving.alone("clocks", *words, files=files, append=KUNIT, silence=SILENCE_S)
    proving.alone("early", *STEERED, files=files, silence=SILENCE_S)
    log = (proving.results / "console.log").read_text()
    none(
        clockcosts.order_problems(records, CALLS)
        + ktap.problems(log, suites)
        + [f"the kernel does not say: {line}" for line in CHECKING if line not in log]
        + [f"the kernel says: {head}" for head in logs.problems_of(log, OURS)]
    )
