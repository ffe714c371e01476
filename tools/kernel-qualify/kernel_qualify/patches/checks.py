"""What is asked of patches, beside their mails: each check returns problems, none when all is well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotplug_common import needs
from hotplug_common.arch import Arch
from hotplug_common.kernel import series
from hotplug_common.needs import Need
from kernel_qualify.patches import layout, patchfiles
from kernel_qualify.patches.patchfiles import PatchFile
from kernel_qualify.patches.workshop import ARCHES, Outcome, Workshop

TELLS_ITS_LAYOUT = "Follow-the-rate-of-CLOCK_MONOTONIC.patch"
"""The patch whose message has a table of where struct clock_event_device has what programs an event."""
STRUCT, OBJECT = "clock_event_device", "kernel/time/clockevents.o"
DEBUG = "CFLAGS_clockevents.o=-g"
CACHE_LINE = 64
LEAST_MEMBERS = 8
"""With fewer, the message has no such table any more."""


@dataclass(frozen=True)
class Job:
    """Files to compile at one state of a tree: the first `count` patches of a workshop's variant."""

    name: str
    shop: Workshop
    count: int
    files: tuple[str, ...]


def require_tools() -> None:
    """Raise ToolError (ENVIRONMENT) unless what compiles and checks is installed."""
    kernel = [need for arch in ARCHES for need in needs.kernel_build(arch)]
    needs.require([*kernel, Need("sparse", "sparse"), Need("pahole", "pahole")])


def applies(shop: Workshop, patches: Sequence[PatchFile]) -> list[str]:
    """Whether `git am` takes all patches, under their subjects. Raises ToolError (INPUT) when it does not."""
    with shop.at(len(shop.patches)):
        subjects = [f"[PATCH] {subject}" for subject in shop.subjects()]
    wanted = [patch.subject for patch in patches]
    return [] if subjects == wanted else [f"commits are {subjects}, not {wanted}"]


def checkpatch(shop: Workshop, patch: PatchFile) -> list[str]:
    """Return what checkpatch.pl reports of a patch."""
    return [f"checkpatch: {line}" for line in shop.checkpatch(patch.path)]


def unmaintained(shop: Workshop, patches: Sequence[PatchFile]) -> list[str]:
    """Return the files that the patches create and that MAINTAINERS does not have."""
    created = [file for patch in patches for file in patch.created]
    with shop.at(len(shop.patches)):
        return [f"MAINTAINERS has no entry for {file}" for file in shop.unmaintained(created)]


def patch_job(shop: Workshop, patch: PatchFile) -> Job:
    """Return the job that compiles what a patch touches, on its predecessors: bisection may stop at any."""
    count = [one.name for one in shop.patches].index(patch.name) + 1
    return Job(patch.name, shop, count, tuple(patch.touched))


def experiment_job(shop: Workshop, name: str) -> Job:
    """Return the job that compiles what an experiment touches. Its patches are the same on all lines."""
    other = shop.of(name)
    patches = patchfiles.patches_of(shop.paths.patches, f"{series.EXPERIMENTS}/{name}")
    touched = sorted({file for patch in patches for file in patch.touched})
    return Job(name, other, len(other.patches), tuple(touched))


def compile_each(jobs: Sequence[Job]) -> dict[str, Outcome]:
    """Compile the files of each job; return what came of each, by name."""
    return {job.name: job.shop.outcome(job.count, job.files) for job in jobs}


def new_reports(
    stock: Workshop, outcomes: Mapping[str, Outcome], created: Sequence[str]
) -> dict[str, list[str]]:
    """Return what is wrong with each outcome, by name.

    W=1 and sparse may report what they report of the stock file, and no more. The stock file is compiled only
    where there is something to compare with it; `created` are the files that the stock kernel lacks.
    """
    reported = {finding.file for outcome in outcomes.values() for finding in outcome.findings}
    files = sorted(reported - set(created))
    before = stock.outcome(0, files).findings if files else frozenset()
    return {
        name: [*outcome.problems, *map(str, sorted(outcome.findings - before))]
        for name, outcome in outcomes.items()
    }


def misplaced(shop: Workshop, patches: Sequence[PatchFile], arch: Arch) -> list[str]:
    """Hold the table of members in a patch's message, and that they share a cache line, against pahole."""
    found = [patch for patch in patches if patch.name.endswith(TELLS_ITS_LAYOUT)]
    if len(found) != 1:
        return [f"{len(found)} patches are called {TELLS_ITS_LAYOUT}, not 1"]
    told = layout.told(found[0].message)
    if len(told) < LEAST_MEMBERS:
        return [f"{found[0].name}: the message has no table of {LEAST_MEMBERS} members or more"]
    with shop.at(len(shop.patches)):
        binary = shop.compiled(arch, OBJECT, DEBUG)
        return layout.wrong(told, layout.of(STRUCT, binary), within=CACHE_LINE)
