"""The kernel's own selftests of timers and clocks, with each clocksource, stock against patched.

Proven: what passes on the stock kernel passes on the patched one. Some of them fail on any kernel under
emulation, where an expiry may come milliseconds late: so the two are compared, and the comparison is printed.
"""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import verdicts
from proving import Proving, none

from hotplug_common import arch
from hotplug_common.kernel import source, tree
from hotplug_common.paths import Paths

pytestmark = pytest.mark.timeout(6 * 3600)
SELFTESTS = "tools/testing/selftests"
HEADERS = ("tools/include", "include/vdso")
"""What the programs include of the rest of the tree, by base."""
PROGRAMS = (
    *("posix_timers", "nanosleep", "inconsistency-check,-t,5", "raw_skew", "freq-step", "adjtick"),
    "leap-a-day,-i,1",
)
ONCE = ("clocksource-switch,-t,20",)
"""Switches clocksources while others of them run."""
CLOCKSOURCES = {"x86_64": ("tsc", "hpet", "acpi_pm"), "ppc64le": ("timebase",)}
CPUS = (2, 1)
SILENCE_S = 1200.0


def programs(base: str, architecture: arch.Arch, folder: Path) -> dict[str, bytes]:
    """Compile the selftests as the base has them, whatever the lab's tree is at right now."""
    (*_, newest) = source.cached(base, Paths.from_environment())
    command = ["git", "-C", str(newest.tree), "archive", tree.BASE, SELFTESTS, *HEADERS]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    here = folder / SELFTESTS / "timers"
    names = [words.partition(",")[0] for words in (*PROGRAMS, *ONCE)]
    compiler = f"{architecture.cross_prefix}gcc"
    for name in names:
        words = [compiler, "-O2", "-w", "-static", "-pthread", "-I", str(folder), "-I", str(here.parent)]
        words += [f"{name}.c", "-o", name, "-lrt", "-lm"]
        subprocess.run(words, cwd=here, check=True, capture_output=True)
    return {name: (here / name).read_bytes() for name in names}


def test_timers(proving: Proving, say: Callable[[str], None], tmp_path: Path) -> None:
    cores, threads = CPUS
    proving.order = replace(proving.order, cores=cores, threads=threads)
    files = programs(proving.order.base, arch.by_name(proving.order.arch), tmp_path)
    script = ("timers", "--clocksources", *CLOCKSOURCES[proving.order.arch], "--programs", *PROGRAMS)
    once = ("--once", *ONCE) if len(CLOCKSOURCES[proving.order.arch]) > 1 else ()
    found = {}
    for kernel in ("stock", "patched"):
        proving.order = replace(proving.order, variant=kernel)
        # TSC is as good as the emulator's clock, but the kernel's watchdog does not think so.
        append = "tsc=reliable" if proving.order.arch == "x86_64" else ""
        found[kernel] = proving.alone(*script, *once, files=files, append=append, silence=SILENCE_S)
    for line in verdicts.timers_table(found["stock"], found["patched"]):
        say(line)
    log = (proving.results / "console.log").read_text()
    none(verdicts.timers_problems(found["stock"], found["patched"]) + proving.past_problems(log))
