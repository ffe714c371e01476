"""The series against its kernel: applies, passes checkpatch, builds patch by patch, adds no warning."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_common.kernel import lines, series
from hotplug_common.paths import Paths
from hotplug_common.ui import Progress
from kernel_qualify.patches import checks, patchfiles, survey
from kernel_qualify.patches.patchfiles import PatchFile
from kernel_qualify.patches.survey import APPLIES, MAINTAINED, Selection, checked, compiled, placed
from kernel_qualify.patches.workshop import Outcome, Workshop
from tests import ROOT

# The first test fetches and unpacks the sources, and compiles all patches.
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(3600)]
PATCHES = ROOT / "kernel-patches"
LINES = lines.names(PATCHES)
ALL = patchfiles.all_patches(PATCHES)
EXPERIMENTAL = patchfiles.experimental_patches(PATCHES)
WARNED = ("kernel/cpu.c", "drivers/hwmon/coretemp.c")
"""Files to be warned of: one that every kernel has, and one that no lab kernel has."""
BROKEN = ("kernel/padata.c", "drivers/hwmon/via-cputemp.c")
"""Files that are not to compile, of the same kinds."""
UNLISTED = "kernel/unlisted.c"

per_patch = pytest.mark.parametrize("patch", ALL, ids=[f"{p.line}-{p.number}" for p in ALL])
per_line = pytest.mark.parametrize("line", LINES)
per_experiment = pytest.mark.parametrize("experiment", series.experiments(PATCHES))

Shops = dict[str, Workshop]
Found = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="module")
def shops() -> Iterator[Shops]:
    checks.require_tools()
    with survey.opened(LINES, Paths.from_environment(), Progress()) as shops:
        yield shops


@pytest.fixture(scope="module")
def found(shops: Shops) -> Found:
    """What all checks of all lines found; the lines are checked at the same time, in one pass each."""
    return survey.surveys(shops, Selection())


def problems(found: Found, line: str, title: str) -> list[str]:
    """What a check found; one that a failure before it kept from running is a problem."""
    return found[line].get(title, [f"not checked: {found[line][APPLIES]}"])


@per_line
def test_series_applies(line: str, found: Found) -> None:
    assert problems(found, line, APPLIES) == []


@per_patch
def test_checkpatch_has_nothing_to_say(patch: PatchFile, found: Found) -> None:
    assert problems(found, patch.line, checked(patch)) == []


@per_line
def test_checkpatch_would_report_a_patch(line: str, shops: Shops, tmp_path: Path) -> None:
    indented = (patch for patch in ALL if patch.line == line and "\n+\tif (" in patch.path.read_text())
    patch = next(indented).path
    spoilt = tmp_path / patch.name
    spoilt.write_text(patch.read_text().replace("\n+\tif (", "\n+        if ("))
    assert any("code indent should use tabs" in problem for problem in shops[line].checkpatch(spoilt))


@per_line
def test_somebody_maintains_the_files_that_are_added(line: str, found: Found, shops: Shops) -> None:
    assert problems(found, line, MAINTAINED) == []
    assert [file for patch in ALL if patch.line == line for file in patch.created]
    assert shops[line].unmaintained(["new/file.c"]) == ["new/file.c"]


@per_patch
def test_patch_builds_on_its_predecessors_without_a_new_warning(patch: PatchFile, found: Found) -> None:
    """Bisection may stop at any patch. W=1 and sparse may report what they report of the stock file only."""
    assert problems(found, patch.line, compiled(patch.name)) == []


@per_line
@pytest.mark.parametrize("arch", [PPC64LE, X86_64], ids=lambda arch: arch.name)
def test_what_programs_an_event_is_where_its_patch_says(arch: Arch, line: str, found: Found) -> None:
    """The table of members in its message, and that they share a cache line, held against pahole."""
    assert problems(found, line, placed(arch.name)) == []


@per_line
@per_experiment
def test_experiment_applies_and_compiles_without_a_new_warning(
    line: str, experiment: str, found: Found
) -> None:
    """On every line: its patches are the same on all of them."""
    patches = [patch for patch in EXPERIMENTAL if patch.line == experiment]
    assert [problems(found, line, checked(patch)) for patch in patches] == [[]] * len(patches)
    assert problems(found, line, compiled(experiment)) == []


@per_line
@per_experiment
def test_commits_of_an_experiment_have_the_subjects_of_its_patches(
    line: str, experiment: str, shops: Shops
) -> None:
    patches = [patch for patch in EXPERIMENTAL if patch.line == experiment]
    assert checks.applies(shops[line].of(experiment), patches) == []


@pytest.fixture(scope="module")
def baited(shops: Shops) -> dict[str, Outcome]:
    """What is reported of files that were given something to find, each kind in its own files.

    The whole series is there, as for the checks above: another configuration would take half a minute.
    Each tool gets something, so that the tests above cannot pass for want of looking.
    """
    with ThreadPoolExecutor() as pool:
        return dict(zip(shops, pool.map(bait, shops.values()), strict=True))


def bait(shop: Workshop) -> Outcome:
    with shop.at(len(shop.patches)):
        for file in WARNED:
            with (shop.tree / file).open("a") as source:
                source.write("static int bait_gcc(void) { int bait; return 0; }\nint bait_sparse;\n")
        for file in BROKEN:
            with (shop.tree / file).open("a") as source:
                source.write("int bait(void) { return undeclared; }\n")
        (shop.tree / UNLISTED).write_text("int fine;\n")
        return shop.compile([*WARNED, *BROKEN, UNLISTED])


@per_line
@pytest.mark.parametrize("file", WARNED)
def test_a_new_warning_would_be_noticed(line: str, file: str, baited: dict[str, Outcome]) -> None:
    texts = {one.text for one in baited[line].findings if one.file == file and "bait" in one.text}
    assert any("unused variable" in text for text in texts)
    assert any("Should it be static?" in text for text in texts)


@per_line
@pytest.mark.parametrize("file", BROKEN)
def test_a_file_that_does_not_compile_is_noticed(line: str, file: str, baited: dict[str, Outcome]) -> None:
    """Whichever architecture has the file: no other one is asked to do better."""
    failed = [problem for problem in baited[line].problems if problem.startswith("compiling ")]
    assert [file.replace(".c", ".o") in problem for problem in failed].count(True) == 1
    errors = [problem for problem in baited[line].problems if f"{file}:" in problem]
    assert any("undeclared" in error and "error: " in error for error in errors)


@per_line
def test_a_file_that_nothing_compiles_is_noticed(line: str, baited: dict[str, Outcome]) -> None:
    assert "no configuration compiles ['kernel/unlisted.o']" in baited[line].problems
