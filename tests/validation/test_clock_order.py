"""No call that starts after another one has returned returns less, on whatever vCPUs: HPET and ACPI PM timer.

In a guest with four times as many vCPUs as the host has CPUs, so that those who read are preempted.
"""

import os
from dataclasses import replace

import clockcosts
import pytest
from proving import CLOCK_CHECK, Proving, none

pytestmark = pytest.mark.timeout(12 * 3600)
SILENCE_S = 6 * 3600.0


def test_clock_order(proving: Proving, pytestconfig: pytest.Config) -> None:
    calls = pytestconfig.getoption("--calls")
    vcpus = 4 * len(os.sched_getaffinity(0))
    proving.order = replace(proving.order, arch="x86_64", cores=vcpus, threads=1)
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, "--calls", str(calls)]
    files = {CLOCK_CHECK: proving.clock_check()}
    records = proving.alone("clocks", *words, files=files, append="loglevel=4", silence=SILENCE_S)
    none(clockcosts.order_problems(records, calls))
