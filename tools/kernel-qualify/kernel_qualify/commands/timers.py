"""`kernel-qualify timers`: the kernel's own selftests of timers and clocks, stock against patched."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common import arch, process
from hotplug_common.paths import Paths
from hotplug_common.ui import out
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options, stocktree
from kernel_qualify.judge import verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "timers"
LIMIT_S = 6 * 3600
SELFTESTS = "tools/testing/selftests"
HEADERS = ("tools/include", "include/vdso")
"""What the programs include of the rest of the tree, by line."""
PROGRAMS = (
    *("posix_timers", "nanosleep", "inconsistency-check,-t,5", "raw_skew", "freq-step", "adjtick"),
    "leap-a-day,-i,1",
)
ONCE = ("clocksource-switch,-t,20",)
"""Switches clocksources while others of them run."""
CLOCKSOURCES = {"x86_64": ("tsc", "hpet", "acpi_pm"), "ppc64le": ("timebase",)}
SILENCE_S = 1200.0


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="run the kernel's own selftests of timers, stock against patched",
        description="""Run the kernel's own selftests of timers and clocks, with each clocksource.
Proven: what passes on the stock kernel passes on the patched one. Some of them fail on any kernel
under emulation, where an expiry may come milliseconds late: so the two are compared, and the
comparison is printed.""",
        examples="""examples:
  kernel-qualify timers
  kernel-qualify timers --arch x86_64 --line 7.3""",
    )
    options.add_line(parser)
    options.add_arch(parser)
    options.add_fragments(parser)
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    find = partial(_find, options.order(arguments, cores=2, threads=1))
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def programs(line: str, architecture: arch.Arch, folder: Path, paths: Paths) -> dict[str, bytes]:
    """Compile the selftests as the line has them, in an empty folder; return them by name.

    Raises ToolError: ENVIRONMENT when the source cannot be had, INPUT when one does not compile.
    """
    stocktree.extract(line, [SELFTESTS, *HEADERS], folder, paths)
    here = folder / SELFTESTS / "timers"
    names = [words.partition(",")[0] for words in (*PROGRAMS, *ONCE)]
    compiler = f"{architecture.cross_prefix}gcc"
    for name in names:
        words = [compiler, "-O2", "-w", "-static", "-pthread", "-I", str(folder), "-I", str(here.parent)]
        done = process.run([*words, f"{name}.c", "-o", name, "-lrt", "-lm"], cwd=here)
        if done.returncode:
            raise ToolError(
                f"{SELFTESTS}/timers/{name}.c does not compile: {process.last_line(done.output)}",
                code=ExitCode.INPUT,
            )
    return {name: (here / name).read_bytes() for name in names}


def _find(order: Order, ground: Ground) -> list[str]:
    folder = ground.folder / NAME
    folder.mkdir()
    files = programs(order.line, arch.by_name(order.arch), folder, ground.paths)
    script = (NAME, "--clocksources", *CLOCKSOURCES[order.arch], "--programs", *PROGRAMS)
    once = ("--once", *ONCE) if len(CLOCKSOURCES[order.arch]) > 1 else ()
    # TSC is as good as the emulator's clock, but the kernel's watchdog does not think so.
    append = "tsc=reliable" if order.arch == "x86_64" else ""
    guest = ground.guest(order)
    found = {}
    for kernel in ("stock", "patched"):
        guest.order = replace(order, variant=kernel)
        found[kernel] = guest.alone(*script, *once, files=files, append=append, silence=SILENCE_S)
    for line in verdicts.timers_table(found["stock"], found["patched"]):
        out(line)
    return verdicts.timers_problems(found["stock"], found["patched"]) + guest.bare_problems()
