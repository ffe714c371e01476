"""hackbench and cyclictest, stock against patched: what everything pays for timers and clocks.

In bare guests with two CPUs; the kernels take turns, boot after boot. Proven: no median is worse than on the
stock kernel by more than the runs differ, and they do not differ so much that this says nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import keeping
import latencies
import pytest
import rttests
import verdicts
from proving import Proving, in_turns, none

from hotplug_common import arch

pytestmark = pytest.mark.timeout(6 * 3600)
RUNS = 10
"""In each boot."""
CPUS = 2
QUIET = "loglevel=1"


def test_latencies(
    proving: Proving, say: Callable[[str], None], pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    proving.order = replace(proving.order, cores=CPUS, threads=1)
    files = rttests.files(arch.by_name(proving.order.arch), tmp_path)
    boots = pytestconfig.getoption("--boots")
    append = f"{QUIET} tsc=reliable" if proving.order.arch == "x86_64" else QUIET
    records: dict[str, list[verdicts.Record]] = {kernel: [] for kernel in latencies.KERNELS}
    for kernel in in_turns(latencies.KERNELS, boots, say):
        proving.order = replace(proving.order, variant=kernel)
        records[kernel] += proving.alone("rtprograms", "--runs", str(RUNS), files=files, append=append)
    run = latencies.Run(
        proving.order.base,
        proving.order.arch,
        CPUS,
        boots,
        {kernel: found[0]["release"] for kernel, found in records.items()},
        tuple(latency for kernel, found in records.items() for latency in latencies.latencies(kernel, found)),
    )
    keeping.save(run, proving.results / "latencies.json")
    for line in latencies.table([run]).splitlines():
        say(line)
    none(latencies.problems(run))
