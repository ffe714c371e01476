"""The clock code on kernels that check themselves: lockdep and its friends, and KCSAN, with the KUnit tests.

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
SUITES = ("combined_counter", "pvclock")
OURS = r"combined_counter|hpet|acpi_pm|pvclock"
"""Functions and files of the series, in a report of KCSAN."""
LOAD = ("--threads", "8", "--seconds", "10", "--iterations", "3", "--calls", "100000")


def log_of(proving: Proving, *topics: str) -> str:
    """What a kernel with these topics says while its tests run and its clocks are read."""
    order = replace(proving.order, arch="x86_64", cores=VCPUS, threads=1)
    proving.order = replace(order, topics=(*topics, "kunit", "kunit-x86"))
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, *LOAD]
    files = {CLOCK_CHECK: proving.clock_check()}
    records = proving.alone("clocks", *words, files=files, append="kunit.enable=1", silence=1200)
    none(clockcosts.order_problems(records, 100000))
    return (proving.results / "console.log").read_text()


def test_clocks_with_lockdep(proving: Proving) -> None:
    log = log_of(proving, "debug")
    none(ktap.problems(log, SUITES) + [f"the kernel says: {problem}" for problem in logs.problems(log)])


def test_clocks_with_kcsan(proving: Proving) -> None:
    log = log_of(proving, "kcsan")
    races = [report.head for report in logs.reports(log.splitlines()) if logs.races_in(report, OURS)]
    none(ktap.problems(log, SUITES) + [f"the kernel says: {race}" for race in races])
