"""What a call costs that reads the HPET or the ACPI PM timer: stock, the HPET without combining, and patched.

In x86-64 guests with as many vCPUs as host CPUs, and with four and eight times as many. The kernels
take turns, each boot after the other. Proven: the targets of clockcosts.py.
"""

import os
from collections.abc import Callable
from dataclasses import replace

import clockcosts
import keeping
import pytest
import verdicts
from proving import CLOCK_CHECK, Proving, in_turns, none

pytestmark = pytest.mark.timeout(6 * 3600)
QUIET = "loglevel=1 tsc=reliable"
"""What is measured is not to be the watchdog of the clocksource in use before."""
THREADS = (1, 2, 4, 8, 16)


@pytest.mark.parametrize("per_host_cpu", [1, 4, 8])
def test_clock_costs(
    proving: Proving, say: Callable[[str], None], pytestconfig: pytest.Config, per_host_cpu: int
) -> None:
    boots = pytestconfig.getoption("--boots")
    host_cpus = len(os.sched_getaffinity(0))
    vcpus = per_host_cpu * host_cpus
    proving.order = replace(proving.order, arch="x86_64", cores=vcpus, threads=1)
    files = {CLOCK_CHECK: proving.clock_check()}
    words = ["--clocksources", *clockcosts.CLOCKSOURCES, "--threads", *map(str, THREADS), "--seconds", "0.5"]
    records: dict[str, list[verdicts.Record]] = {kernel: [] for kernel in clockcosts.KERNELS}
    for kernel in in_turns(clockcosts.KERNELS, boots, say):
        proving.order = replace(proving.order, variant=kernel)
        records[kernel] += proving.alone("clocks", *words, files=files, append=QUIET)
    releases = {kernel: found[0]["release"] for kernel, found in records.items()}
    costs = [cost for kernel, found in records.items() for cost in clockcosts.costs(kernel, found)]
    run = clockcosts.Run(proving.order.base, vcpus, host_cpus, boots, releases, tuple(costs))
    keeping.save(run, proving.results / "clocks.json")
    for line in clockcosts.table([run]).splitlines():
        say(line)
    none(clockcosts.problems(run))
