"""What a workshop decides without a compiler: maintainers, configurations, selections, output of make."""

from pathlib import Path

import pytest

from hotplug_common.arch import PPC64LE, X86_64
from hotplug_common.kernel import config, lines
from hotplug_common.paths import Paths
from kernel_qualify.patches import checks, compiling, patchfiles, survey, workshop
from kernel_qualify.patches.checks import Job
from kernel_qualify.patches.findings import Finding
from kernel_qualify.patches.survey import Selection
from kernel_qualify.patches.workshop import Outcome
from tests import ROOT

PATCHES = ROOT / "kernel-patches"


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


def test_the_last_mention_of_a_symbol_stays() -> None:
    text = workshop.merged(["CONFIG_A=y\nCONFIG_B=m\n", "# CONFIG_A is not set\nCONFIG_C=7\n"])
    assert text == "# CONFIG_A is not set\nCONFIG_B=m\nCONFIG_C=7\n"


@pytest.mark.parametrize("line", lines.names(PATCHES))
@pytest.mark.parametrize("arch", workshop.ARCHES, ids=lambda arch: arch.name)
def test_a_patch_is_compiled_in_what_a_lab_kernel_has_and_more(line: str, arch: object) -> None:
    wanted = PPC64LE if arch is PPC64LE else X86_64
    values = config.parse(workshop.merged(workshop.fragments_of(PATCHES, wanted, line)))
    lab = config.parse("\n".join(part.content for part in config.load(PATCHES, wanted, line)))
    assert lab.items() <= values.items()
    assert values["CONFIG_MODULES"] == "y"


OUTPUT = """\
  CC listed  kernel/cpu.o
/src/kernel/cpu.c:7:9: warning: unused variable 'one' [-Wunused-variable]
/src/kernel/cpu.c:8: note: something
  CC other  drivers/away.o
/src/drivers/away.c:1:1: error: no such thing
  CC listed  kernel/broken.o
/src/kernel/broken.c:3:1: error: 'undeclared' undeclared
make[1]: *** No rule to make target 'kernel/absent.o'.  Stop.
"""


def test_what_the_output_of_make_tells(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/cpu.o").touch()
    objects = frozenset({"kernel/cpu.o", "drivers/away.o", "kernel/broken.o", "kernel/absent.o"})
    read = compiling.read(OUTPUT, objects, Path("/src"), tmp_path)
    assert read.listed == {"kernel/cpu.o", "kernel/broken.o"}
    assert read.failed == {"kernel/broken.o"}
    assert Finding("kernel/cpu.c", "warning: unused variable 'one' [-Wunused-variable]") in read.findings
    assert not any("something" in finding.text for finding in read.findings)


def test_an_object_that_make_did_not_come_to_has_failed(tmp_path: Path) -> None:
    read = compiling.read(OUTPUT, frozenset({"mm/vmstat.o"}), Path("/src"), tmp_path)
    assert read.failed == {"mm/vmstat.o"}


def test_a_file_that_others_include_is_compiled_with_them(tmp_path: Path) -> None:
    sched = tmp_path / "kernel/sched"
    (sched / "ext").mkdir(parents=True)
    (sched / "build_policy.c").write_text('#include "deadline.c"\n# include "ext/ext.c"\n')
    (sched / "core.c").write_text("int core;\n")
    files = ["kernel/sched/deadline.c", "kernel/sched/ext/ext.c", "kernel/sched/core.c", "a.h"]
    assert compiling.objects_of(tmp_path, files) == {
        "kernel/sched/build_policy.o": set(files[:2]),
        "kernel/sched/core.o": {files[2]},
    }


class Shop(workshop.Workshop):
    """A workshop that reports by the number of patches, and compiles nothing."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[int, list[str]]] = []

    def outcome(self, count: int, files: object) -> Outcome:
        self.asked.append((count, list(files)))  # type: ignore[call-overload]
        return self.outcomes[count]


OLD, NEW = Finding("a.c", "warning: old"), Finding("a.c", "warning: new")


def test_what_the_stock_file_has_is_no_problem_and_the_rest_is() -> None:
    shop = Shop(
        {1: Outcome(frozenset({OLD})), 2: Outcome(frozenset({OLD, NEW})), 0: Outcome(frozenset({OLD}))}
    )
    jobs = [Job("one", shop, 1, ("a.c", "b.c")), Job("two", shop, 2, ("a.c",))]
    outcomes = checks.compile_each(jobs)
    assert checks.new_reports(shop, outcomes, []) == {"one": [], "two": ["a.c: warning: new"]}
    assert shop.asked == [(1, ["a.c", "b.c"]), (2, ["a.c"]), (0, ["a.c"])]


def test_stock_is_not_compiled_for_silence_nor_for_new_files() -> None:
    shop = Shop({1: Outcome(), 2: Outcome(frozenset({NEW}), ("compiling a.o failed",))})
    jobs = [Job("one", shop, 1, ("a.c",)), Job("two", shop, 2, ("a.c",))]
    found = checks.new_reports(shop, checks.compile_each(jobs), created=["a.c"])
    assert found == {"one": [], "two": ["compiling a.o failed", "a.c: warning: new"]}
    assert [count for count, _ in shop.asked] == [1, 2]


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(), None),
        (Selection(topic="clocks"), 4),
        (Selection(name="clocks-0001"), 1),
        (Selection(name="clocks/0001-*"), 1),
        (Selection(name="0001-*"), 3),
        (Selection(topic="clocks", name="hotplug-0001"), 0),
        (Selection(topic="nothing"), 0),
    ],
)
def test_patches_are_chosen_by_topic_number_and_name(selection: Selection, count: int | None) -> None:
    paths = Paths(ROOT, ROOT, ROOT)
    every = patchfiles.line_patches(PATCHES, "6.12")
    assert len(survey.chosen(paths, "6.12", selection)) == (len(every) if count is None else count)
    assert selection.everything is (count is None)


class Perl(workshop.Workshop):
    """A workshop whose checkpatch.pl reports the lines that end with a space, and notes that it ran."""

    tree = property(lambda self: self.paths.cache / "tree")

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(folder, folder, ROOT)
        (self.tree / "scripts").mkdir(parents=True)
        for name in ("spelling.txt", "const_structs.checkpatch"):
            (self.tree / "scripts" / name).write_text("")
        self.write("")

    def write(self, comment: str) -> None:
        """Write the script, which a comment makes another one."""
        text = f'#{comment}\nsystem("echo >> ran"); while (<>) {{ print "$.: space\\n" if / $/ }} exit 0;\n'
        (self.tree / "scripts/checkpatch.pl").write_text(text)

    @property
    def ran(self) -> int:
        return len((self.tree / "ran").read_text())


def test_what_checkpatch_reported_is_kept_until_the_patch_or_the_script_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workshop, "CHECKPATCH", ("perl", "scripts/checkpatch.pl"))
    shop, patch = Perl(tmp_path), tmp_path / "a.patch"
    patch.write_text("one \n" * 12)
    told = [f"{number}: space" for number in range(1, 13)]
    assert [shop.checkpatch(patch) for _ in range(2)] == [told, told]
    assert shop.ran == 1
    patch.write_text("one\n")
    assert [shop.checkpatch(patch) for _ in range(2)] == [[], []]
    assert shop.ran == 2
    shop.write("newer")
    assert shop.checkpatch(patch) == []
    assert shop.ran == 3
    shop.write("fails\nexit 3;")
    assert [shop.checkpatch(patch) for _ in range(2)] == [["exit code 3"]] * 2
    shop.write("fails no more")
    assert shop.checkpatch(patch) == []
