"""The clock code on a kernel that checks itself: lockdep and its friends, and KCSAN, with the KUnit tests.

Proven: all KUnit tests of the series pass; under calls from more vCPUs than the host has CPUs, with each
clocksource, lockdep says nothing, and KCSAN nothing of the files of the series.
"""

from dataclasses import replace

import clockcosts
import ktap
import logs
import pytest
from proving import CLOCK_CHECK, Proving, none

pytestmark = pytest.mark.timeout(3 * 3600)
VCPUS = 8
SUITES = ("combined_counter", "pvclock", "clockevents")
OURS = r"combined_counter|hpet|acpi_pm|pvclock|clockevents|cev_|timekeeping"
"""Functions and files of the series, in a report of KCSAN."""
LOAD = ("--threads", "8", "--seconds", "10", "--iterations", "3")
CALLS = 100_000


def test_clocks_with_lockdep_and_kcsan(proving: Proving) -> None:
    order = replace(proving.order, arch="x86_64", cores=VCPUS, threads=1)
    proving.order = replace(order, topics=("debug", "kcsan", "kunit", "kunit-x86"))
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, *LOAD, "--calls", str(CALLS)]
    files = {CLOCK_CHECK: proving.clock_check()}
    records = proving.alone("clocks", *words, files=files, append="kunit.enable=1", silence=1200)
    log = (proving.results / "console.log").read_text()
    none(
        clockcosts.order_problems(records, CALLS)
        + ktap.problems(log, SUITES)
        + [f"the kernel says: {head}" for head in logs.problems_of(log, OURS)]
    )
