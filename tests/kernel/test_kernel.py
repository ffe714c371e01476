"""The series against its kernel: applies, passes checkpatch, builds patch by patch, adds no warning."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_common.kernel import series
from hotplug_common.paths import Paths
from tests.kernel import layout, patchfiles, workshop
from tests.kernel.patchfiles import PATCHES, PatchFile
from tests.kernel.workshop import Workshop

# The first test of a base fetches and unpacks its source.
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1200)]
BUILD_TIMEOUT_S = 3000
BOOTED = "6.12"
"""The base that the lab's own tests boot. Others are linked and booted by tests/validation, with --base."""
OUTSIDE_THE_LAB = "drivers/hwmon/coretemp.c"
"""A file that no lab kernel has."""
TELLS_ITS_LAYOUT = "Count-at-the-rate-of-CLOCK_MONOTONIC.patch"
"""The patch whose message says where struct clock_event_device has what programs an event."""

ALL = patchfiles.all_patches()
per_patch = pytest.mark.parametrize("patch", ALL, ids=[f"{p.base}-{p.number}" for p in ALL])
per_base = pytest.mark.parametrize("base", patchfiles.bases())


class Shops:
    """One workshop a base, opened when a test first asks for it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._open: dict[str, Workshop] = {}

    def __getitem__(self, base: str) -> Workshop:
        if base not in self._open:
            self._open[base] = self._stack.enter_context(workshop.opened(base, Paths.from_environment()))
        return self._open[base]


@pytest.fixture(scope="module")
def shops() -> Iterator[Shops]:
    with ExitStack() as stack:
        yield Shops(stack)


@per_base
def test_series_applies(base: str, shops: Shops) -> None:
    shop = shops[base]
    with shop.at(len(shop.patches)):
        subjects = shop.subjects()
    assert [f"[PATCH] {subject}" for subject in subjects] == [
        patch.subject for patch in ALL if patch.base == base
    ]


@per_patch
def test_checkpatch_has_nothing_to_say(patch: PatchFile, shops: Shops) -> None:
    assert shops[patch.base].checkpatch(patch.path) == ""


@per_base
def test_somebody_maintains_the_files_that_are_added(base: str, shops: Shops) -> None:
    shop = shops[base]
    created = [file for patch in ALL if patch.base == base for file in patch.created]
    with shop.at(len(shop.patches)):
        assert created
        assert shop.unmaintained(created) == []
        assert shop.unmaintained(["new/file.c"]) == ["new/file.c"]


@pytest.mark.parametrize(
    ("pattern", "file", "named"),
    [
        ("arch/powerpc/", "arch/powerpc/include/asm/new.h", True),
        ("arch/powerpc/", "arch/x86/new.c", False),
        ("drivers/*/power*/", "drivers/new/powerful/file.c", True),
        ("kernel/time/combined_counter*", "kernel/time/combined_counter_test.c", True),
        ("kernel/time*", "kernel/time/new.c", False),
        ("*/", "kernel/new.c", False),
        ("*", "new.c", False),
    ],
)
def test_what_a_pattern_of_maintainers_names(pattern: str, file: str, named: bool) -> None:
    assert workshop.covers(pattern, file) is named


@per_patch
def test_patch_builds_on_its_predecessors_without_a_new_warning(patch: PatchFile, shops: Shops) -> None:
    """Bisection may stop at any patch. W=1 and sparse may say what they said of the stock file, no more."""
    assert shutil.which("sparse"), "sparse is not installed; run tools/setup/setup.sh"
    shop = shops[patch.base]
    before = shop.stock()
    with shop.at([one.name for one in shop.patches].index(patch.name) + 1):
        after = shop.compile(patch.touched)
    assert not after - before


@per_base
@pytest.mark.parametrize("arch", [PPC64LE, X86_64], ids=lambda arch: arch.name)
def test_what_programs_an_event_is_where_its_patch_says(arch: Arch, base: str, shops: Shops) -> None:
    """The table of members in its message, and that they share a cache line, held against pahole."""
    shop = shops[base]
    (patch,) = (patch for patch in ALL if patch.base == base and patch.name.endswith(TELLS_ITS_LAYOUT))
    with shop.at(len(shop.patches)):
        binary = shop.compiled(arch, "kernel/time/clockevents.o", "KCFLAGS=-g")
    told = layout.told(patch.message)
    assert len(told) >= 8, "the message has no such table any more"
    found = layout.of("clock_event_device", binary)
    assert layout.wrong(told, found, within=64) == []


@per_base
@pytest.mark.parametrize("experiment", series.experiments(PATCHES))
def test_experiment_applies_and_compiles_without_a_new_warning(
    base: str, experiment: str, shops: Shops
) -> None:
    """On every base: its patches are the same on all of them."""
    shop = shops[base].of(experiment)
    patches = patchfiles.patches_of(f"{series.EXPERIMENTS}/{experiment}")
    touched = sorted({file for patch in patches for file in patch.touched})
    assert [shop.checkpatch(patch.path) for patch in patches] == [""] * len(patches)
    before = shop.stock()
    with shop.at(len(patches)):
        assert [f"[PATCH] {subject}" for subject in shop.subjects()] == [patch.subject for patch in patches]
        after = shop.compile(touched)
    assert not after - before


@per_base
@pytest.mark.parametrize("file", ["kernel/cpu.c", OUTSIDE_THE_LAB])
def test_a_new_warning_would_be_noticed(base: str, file: str, shops: Shops) -> None:
    """Each tool gets something to find, so that the test above cannot pass for want of looking."""
    shop = shops[base]
    bait = {"gcc": "static int bait_gcc(void) { int bait; return 0; }", "sparse": "int bait_sparse;"}
    with shop.at(0):
        with (shop.tree / file).open("a") as source:
            source.write("\n".join(bait.values()))
        found = {finding.text for finding in shop.compile([file]) if "bait" in finding.text}
    assert any("unused variable" in text for text in found)
    assert any("Should it be static?" in text for text in found)


@per_base
@pytest.mark.parametrize("file", ["kernel/cpu.c", OUTSIDE_THE_LAB])
def test_a_file_that_does_not_compile_is_noticed(base: str, file: str, shops: Shops) -> None:
    """Whichever configuration has the file: no other one is asked to do better."""
    shop = shops[base]
    with shop.at(0):
        with (shop.tree / file).open("a") as source:
            source.write("int bait(void) { return undeclared; }")
        with pytest.raises(AssertionError, match=r"error: .undeclared. undeclared"):
            shop.compile([file])


@per_base
def test_a_file_that_nothing_compiles_is_noticed(base: str, shops: Shops) -> None:
    shop = shops[base]
    with shop.at(0):
        (shop.tree / "kernel/unlisted.c").write_text("int fine;")
        with pytest.raises(AssertionError, match=r"no configuration compiles .'kernel/unlisted\.o'"):
            shop.compile(["kernel/unlisted.c"])


@pytest.mark.timeout(BUILD_TIMEOUT_S)
def test_whole_series_builds() -> None:
    """Built where the lab finds it again; with ccache and the lab's object directory it is built once."""
    command = Path(sys.executable).with_name("lpar-lab")
    arguments = ["build-kernel", "--base", BOOTED, "--variant", "patched", "--print-artifact"]
    done = subprocess.run([command, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    artifact = json.loads(Path(done.stdout.strip()).read_text())
    assert artifact["patches"] == [patch.name for patch in ALL if patch.base == BOOTED]
    assert artifact["release"].startswith(f"{BOOTED}.")
    assert Path(artifact["image"]).read_bytes()[:4] == b"\x7fELF"
