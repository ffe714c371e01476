"""`kernel-qualify matrix`: what the series touches, compiled for three architectures, and without parts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hotplug_common.kernel import source
from hotplug_common.ui import out
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.matrix import CONFIGURATIONS, Bench, Configuration, problems
from kernel_qualify.patches import compiling, patchfiles, workshop
from kernel_qualify.patches.workshop import Workshop
from kernel_qualify.proof import Ground, Proof

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "matrix"
LIMIT_S = 3600
COVERAGE, BAITS = "coverage", "baits"
OBJECTS = "objects"
"""Where it is kept what a configuration compiled, for the proof of coverage."""
BAITED = "x86-64-no-smp"
BAIT_FILE, BAIT_OBJECT = "kernel/cpu.c", "kernel/cpu.o"
BAIT = {
    "static int bait(void) { int unused; return 0; }": "kernel/cpu.c: warning:",
    "int broken(void) { return undeclared; }": "kernel/cpu.o does not compile any more",
}
"""What the comparison has to find when it is added to a file, and how it calls that."""


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="compile what the series touches, in many configurations",
        description="""Compile what the series touches with W=1 for three architectures, and without what
it builds on.
Proven: in each configuration, whatever compiled without the series compiles with it, and the
compiler reports nothing that it did not report before; each file was compiled in one configuration
at least; and the comparison notices what is put there for it to find.""",
        examples="""examples:
  kernel-qualify matrix --configuration ppc64le-no-smp
  kernel-qualify matrix --line 7.3 --resume""",
    )
    options.add_line(parser)
    parser.add_argument(
        "--configuration",
        choices=[configuration.name for configuration in CONFIGURATIONS],
        action="append",
        metavar="NAME",
        help="only this one, without the proof that each file was compiled; may be repeated; there are:"
        f" {', '.join(configuration.name for configuration in CONFIGURATIONS)}",
    )
    options.add_keeping(parser)


@dataclass(frozen=True)
class Series:
    """The series of a line, and a workshop to build it in."""

    shop: Workshop
    files: list[str]


@contextmanager
def opened(line: str, ground: Ground) -> Iterator[Series]:
    """Give the series of a line."""
    patches = patchfiles.line_patches(ground.paths.patches, line)
    files = sorted({file for patch in patches for file in patch.touched if file.endswith(".c")})
    obtained = source.obtain(line, ground.paths, ground.say)
    with workshop.opened(obtained, ground.paths, ground.say) as shop:
        yield Series(shop, files)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return a proof for each configuration; for all of them also those of coverage and comparison."""
    line = arguments.line
    facts = options.facts(arguments, "configuration")
    asked = [c for c in CONFIGURATIONS if not arguments.configuration or c.name in arguments.configuration]
    found = [
        Proof(f"{NAME}/{configuration.name}", line, facts, partial(_find, line, configuration), LIMIT_S)
        for configuration in asked
    ]
    if not arguments.configuration:
        found.append(Proof(f"{NAME}/{COVERAGE}", line, facts, partial(_uncovered, line), LIMIT_S))
        found.append(Proof(f"{NAME}/{BAITS}", line, facts, partial(_unnoticed, line), LIMIT_S))
    return found


def _find(line: str, configuration: Configuration, ground: Ground) -> list[str]:
    with opened(line, ground) as series:
        shop = series.shop
        bench = Bench(shop, configuration)
        with shop.at(0):
            bench.configure()
            stock = bench.compile(bench.objects(series.files))
        if not stock.objects:
            (ground.results / "make.log").write_text(stock.output)
            return ["nothing compiles without the series"]
        with shop.at(len(shop.patches)):
            patched = bench.compile(bench.objects(series.files))
    found = problems(stock, patched)
    if not found:
        (ground.results / OBJECTS).write_text("\n".join(sorted(patched.objects)) + "\n")
    out(f"{configuration.name}: {len(patched.objects)} objects compiled")
    return found


def _uncovered(line: str, ground: Ground) -> list[str]:
    """Return the files that no configuration has compiled."""
    folder = ground.results.parent
    listings = {c.name: folder / c.name / OBJECTS for c in CONFIGURATIONS}
    missing = [f"{name} has not passed" for name, listing in listings.items() if not listing.exists()]
    if missing:
        return missing
    compiled = {name for listing in listings.values() for name in listing.read_text().split()}
    with opened(line, ground) as series, series.shop.at(len(series.shop.patches)):
        units = {file: compiling.units_of(series.shop.tree, file) for file in series.files}
    return uncovered(units, compiled)


def uncovered(units: dict[str, list[str]], compiled: set[str]) -> list[str]:
    """Return which files have no unit among the objects that were compiled."""
    return [
        f"no configuration compiles {file}"
        for file, including in units.items()
        if not any(str(Path(unit).with_suffix(".o")) in compiled for unit in including)
    ]


def _unnoticed(line: str, ground: Ground) -> list[str]:
    """Return what the comparison does not notice although it is there."""
    found = []
    with opened(line, ground) as series:
        shop = series.shop
        bench = Bench(shop, next(c for c in CONFIGURATIONS if c.name == BAITED))
        for bait, expected in BAIT.items():
            with shop.at(0):
                bench.configure()
                stock = bench.compile([BAIT_OBJECT])
                with (shop.tree / BAIT_FILE).open("a") as source:
                    source.write(bait + "\n")
                spoilt = bench.compile([BAIT_OBJECT])
            if not any(expected in problem for problem in problems(stock, spoilt)):
                found.append(f"the comparison does not notice: {bait}")
    return found
