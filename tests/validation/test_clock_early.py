"""Timers under a steered clock: what is programmed, which interrupts come, what that costs; both kernels.

In bare guests: POWER with the decrementer; x86-64 with the local APIC's timer, and with one CPU and the HPET.
What it costs is counted in guests of their own, with one CPU, whose clocks count instructions.
Proven: the targets of earlysleeps.py, also after a suspend.
"""

from collections.abc import Callable
from dataclasses import replace

import earlysleeps
import keeping
import pytest
from proving import CLOCK_CHECK, Proving, none

pytestmark = pytest.mark.timeout(6 * 3600)
PPMS = "-500,0,500"
SLEEPS = "0.01,0.1,1,4"
SILENCE_S = 1200.0
QUIET = "loglevel=1"
TIMERS = {
    "decrementer": ("ppc64le", 2, ""),
    "lapic": ("x86_64", 2, "tsc=reliable"),
    # Without the APIC's timer, and with one CPU, it is the CPU's own.
    "hpet": ("x86_64", 1, "tsc=reliable nolapic_timer hpet=force"),
}
SLEEPING = {"hpet": "clocksource=hpet"}
"""More words while somebody sleeps: the TSC's rate would be one that was measured at boot."""


@pytest.mark.parametrize("timer", TIMERS)
def test_clock_early(
    proving: Proving, say: Callable[[str], None], pytestconfig: pytest.Config, timer: str
) -> None:
    arch, cores, words = TIMERS[timer]
    topics = (*proving.order.topics, *earlysleeps.SUSPEND_TOPICS[arch])
    proving.order = replace(proving.order, arch=arch, cores=cores, threads=1, topics=topics)
    files = {CLOCK_CHECK: proving.clock_check()}
    rounds = pytestconfig.getoption("--rounds")
    sleeps = pytestconfig.getoption("--sleeps") or SLEEPS
    script = ["early", f"--ppms={PPMS}", "--sleeps", sleeps, "--rounds", str(rounds)]
    script += ["--suspends", *earlysleeps.SUSPENDS[arch]]
    found, programming = {}, {}
    for kernel in earlysleeps.KERNELS:
        append = f"{QUIET} {words}".strip()
        proving.order = replace(proving.order, variant=kernel, cores=1)
        programming[kernel] = proving.alone("programming", append=append, icount=True)
        proving.order = replace(proving.order, cores=cores)
        append = f"{append} {SLEEPING.get(timer, '')}".strip()
        found[kernel] = proving.alone(*script, files=files, append=append, silence=SILENCE_S)
    run = earlysleeps.Run(
        proving.order.base,
        arch,
        next(record["name"] for record in found[earlysleeps.PATCHED] if record["kind"] == "device"),
        {kernel: records[0]["release"] for kernel, records in found.items()},
        tuple(sleep for kernel, records in found.items() for sleep in earlysleeps.sleeps(kernel, records)),
        tuple(cost for kernel, records in programming.items() for cost in earlysleeps.costs(kernel, records)),
        {kernel: earlysleeps.suspended(records) for kernel, records in found.items()},
        {kernel: earlysleeps.rate(records) for kernel, records in found.items()},
    )
    keeping.save(run, proving.results / "early.json")
    for line in earlysleeps.table([run]).splitlines():
        say(line)
    none(earlysleeps.problems(run))
