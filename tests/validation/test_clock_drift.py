"""HPET and ACPI PM timer keep the pace of the machine's real-time clock and of the raw one, without a jump.

In a guest with as many vCPUs as the host has CPUs; its real-time clock is the emulator's.
"""

import os
from dataclasses import replace

import clockcosts
import pytest
from proving import CLOCK_CHECK, Proving, none

pytestmark = pytest.mark.timeout(3600)
REFERENCES = ("raw", "/dev/rtc0")


def test_clock_drift(proving: Proving) -> None:
    vcpus = len(os.sched_getaffinity(0))
    proving.order = replace(proving.order, arch="x86_64", cores=vcpus, threads=1)
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, "--references", *REFERENCES]
    records = proving.alone("clocks", *words, files={CLOCK_CHECK: proving.clock_check()}, append="loglevel=4")
    none(clockcosts.drift_problems(records, REFERENCES, vcpus))
