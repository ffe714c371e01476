"""The comparison of two compilations, and the check of a configuration, on canned text."""

from pathlib import Path

import pytest

from kernel_qualify import matrix
from kernel_qualify.matrix import Compiled, Configuration
from kernel_qualify.patches.compiling import is_for

TREE = Path("/src/linux")
OUTPUT = """\
  CC      kernel/cpu.o
/src/linux/kernel/cpu.c:{line}:13: warning: unused variable 'bait' [-Wunused-variable]
/src/linux/kernel/cpu.c:{line}: note: something
"""
BOTH = frozenset({"kernel/cpu.o", "mm/vmstat.o"})


def compiled(output: str, objects: frozenset[str] = BOTH) -> Compiled:
    return Compiled(objects, matrix.findings_of(output, TREE), output)


def test_a_warning_that_only_moved_is_none() -> None:
    assert matrix.problems(compiled(OUTPUT.format(line=10)), compiled(OUTPUT.format(line=99))) == []


def test_a_new_warning_is_noticed() -> None:
    found = matrix.problems(compiled(""), compiled(OUTPUT.format(line=10)))
    assert found == ["kernel/cpu.c: warning: unused variable 'bait' [-Wunused-variable]"]


def test_what_a_configuration_does_not_have_may_not_compile_in_it() -> None:
    complaint = "/src/linux/kernel/new.c:1: error: no such thing\n"
    other = f"  CC other  kernel/new.o\n{complaint}"
    listed, another = "  CC listed  kernel/cpu.o\n", "  CHECK   kernel/new.c\n"
    assert matrix.findings_of(other + listed, TREE) == frozenset()
    for step in (listed, another):
        assert len(matrix.findings_of(other + step + complaint, TREE)) == 1


def test_a_warning_in_another_file_is_a_new_one() -> None:
    moved = OUTPUT.format(line=10).replace("kernel/cpu.c", "include/linux/cpu.h")
    assert len(matrix.problems(compiled(OUTPUT.format(line=10)), compiled(moved))) == 1


def test_an_object_that_is_gone_is_noticed() -> None:
    found = matrix.problems(compiled(""), compiled("", frozenset({"kernel/cpu.o"})))
    assert found == ["mm/vmstat.o does not compile any more"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("CONFIG_SMP=y\n# CONFIG_NUMA is not set\n", []),
        ("CONFIG_SMP=y\n", []),
        ("CONFIG_NUMA=y\n", ["SMP is off", "NUMA is on"]),
        ("CONFIG_SMP=y\nCONFIG_NUMA=m\n", ["NUMA is on"]),
    ],
)
def test_a_configuration_has_to_be_the_one_asked_for(config: str, expected: list[str]) -> None:
    asked = Configuration("any", "x86", "", "gcc", "defconfig", has=("SMP",), lacks=("NUMA",))
    assert asked.problems(config) == expected


def test_each_architecture_gets_its_own_files() -> None:
    takes = {c.name: is_for(c.kbuild, "arch/powerpc/kernel/sysfs.c") for c in matrix.CONFIGURATIONS}
    assert {name for name, own in takes.items() if own} == {name for name in takes if name.startswith("ppc")}
    assert all(is_for(c.kbuild, "kernel/cpu.c") for c in matrix.CONFIGURATIONS)
