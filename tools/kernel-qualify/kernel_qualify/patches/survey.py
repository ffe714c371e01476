"""All checks of the patches of several lines, the lines at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import Event

from hotplug_common.kernel import series, source
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify.patches import checks, patchfiles, workshop
from kernel_qualify.patches.patchfiles import PatchFile
from kernel_qualify.patches.workshop import ARCHES, Workshop

APPLIES, MAINTAINED = "git am", "maintainers"


def checked(patch: PatchFile) -> str:
    """Return the title of checkpatch's verdict on a patch."""
    return f"checkpatch {patch.name}"


def compiled(name: str) -> str:
    """Return the title of what compiling a patch or an experiment found."""
    return f"compile {name}"


def placed(arch: str) -> str:
    """Return the title of the check of a layout."""
    return f"layout {arch}"


@dataclass(frozen=True)
class Selection:
    """Which patches to look at: those of a topic, or of a name (a pattern); all of them by default.

    What is not about single patches is left out unless all are looked at.
    """

    topic: str | None = None
    name: str | None = None

    @property
    def everything(self) -> bool:
        """Whether all patches are looked at, and experiments as well."""
        return self.topic is None and self.name is None

    def has(self, patch: PatchFile) -> bool:
        """Whether a patch is one of them: its number (clocks-0001), its file name or a pattern of it."""
        if self.topic not in (None, patch.topic):
            return False
        names = (patch.number, patch.name, patch.path.name)
        return self.name is None or any(fnmatchcase(name, self.name) for name in names)


def chosen(paths: Paths, line: str, selection: Selection) -> list[PatchFile]:
    """Return the selected patches of a line, in order."""
    return [patch for patch in patchfiles.line_patches(paths.patches, line) if selection.has(patch)]


@contextmanager
def opened(lines: Sequence[str], paths: Paths, say: Say) -> Iterator[dict[str, Workshop]]:
    """Give a workshop for each line. Sources that the cache lacks are fetched at the same time."""
    with ThreadPoolExecutor(max_workers=max(1, len(lines))) as pool:
        sources = list(pool.map(lambda line: source.obtain(line, paths, say), lines))
    with ExitStack() as stack:
        yield {one.line: stack.enter_context(workshop.opened(one, paths, say)) for one in sources}


def survey(shop: Workshop, selection: Selection) -> dict[str, list[str]]:
    """Check the selected patches of a workshop's line; return the problems by title, none for what is well.

    Where a patch does not apply, nothing else is looked at.
    """
    line, paths = shop.source.line, shop.paths
    every = patchfiles.line_patches(paths.patches, line)
    mine = [patch for patch in every if selection.has(patch)]
    try:
        found = {APPLIES: checks.applies(shop, every)}
    except ToolError as error:
        if error.code is not ExitCode.INPUT:
            raise
        return {APPLIES: [str(error)]}
    found |= {checked(patch): checks.checkpatch(shop, patch) for patch in mine}
    jobs = [checks.patch_job(shop, patch) for patch in mine]
    created = [file for patch in every for file in patch.created]
    if selection.everything:
        found[MAINTAINED] = checks.unmaintained(shop, every)
        names = series.experiments(paths.patches)
        for patch in patchfiles.experimental_patches(paths.patches):
            found[checked(patch)] = checks.checkpatch(shop, patch)
        jobs = [*(checks.experiment_job(shop, name) for name in names), *jobs]
    outcomes = checks.compile_each(jobs)
    if selection.everything:
        found |= {placed(arch.name): checks.misplaced(shop, every, arch) for arch in ARCHES}
    # Going back to the stock tree takes a configuration and a while: once, after everything else.
    reports = checks.new_reports(shop, outcomes, created)
    return found | {compiled(name): problems for name, problems in reports.items()}


def surveys(shops: Mapping[str, Workshop], selection: Selection) -> dict[str, dict[str, list[str]]]:
    """Survey the lines at the same time; return the problems by line and title."""
    stopped = Event()
    for shop in shops.values():
        shop.stopped = stopped
    with ThreadPoolExecutor(max_workers=max(1, len(shops))) as pool:
        begun = {line: pool.submit(survey, shop, selection) for line, shop in shops.items()}
        try:
            return {line: future.result() for line, future in begun.items()}
        except BaseException:
            stopped.set()
            raise
