"""The harness as it is: compiled of the kernel patches, and run for moments."""

import os
import shutil
from pathlib import Path

import pytest

from clock_harness import build, measure, sources
from clock_harness.measure import Counter, Harness
from hotplug_common import needs as preflight
from hotplug_common import process
from hotplug_common.kernel import series
from hotplug_host.errors import ExitCode, ToolError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(any(preflight.find(need) is None for need in build.NEEDS), reason="no C compiler"),
]

CPU = min(os.sched_getaffinity(0))
THREADS = 4
MS = 100
BITS_THAT_WRAP = 20
# Every second value is 5 us old.
BROKEN_HELPER = """\
#include <linux/combined_counter.h>

u32 combined_counter_read(struct combined_counter *counter)
{
	static __thread unsigned int calls;

	return counter->read() - (calls++ % 2 ? 5000 : 0);
}
"""
ALGORITHMS = (*measure.SHARED, *measure.PERCPU)


@pytest.fixture(scope="module")
def code(root: Path) -> dict[str, str]:
    return sources.kernel_code(series.load(root / "kernel-patches", "6.12", series.PATCHED))


@pytest.fixture(scope="module")
def program(code: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build.build(code, tmp_path_factory.mktemp("harness"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_reads(program: Path, algorithm: str) -> None:
    sample = Harness(program, (CPU,), MS).measure(algorithm, THREADS, Counter(1000))
    assert (sample.algorithm, sample.threads) == (algorithm, THREADS)
    assert sample.calls > 0


def test_threads_of_one_cpu_never_run_together(program: Path) -> None:
    """As each has to make calls while another one is not preempted."""
    assert Harness(program, (CPU,), MS).together("retry", 2, Counter(0)).calls == 0


def test_a_thread_alone_is_all_of_them(program: Path) -> None:
    sample = Harness(program, (CPU,), MS).together("retry", 1, Counter(0))
    assert sample.calls > 0
    assert sample.us_per_call == pytest.approx(sample.cpu_us_per_call)


@pytest.mark.parametrize("algorithm", ["combined", "pvclock"])
def test_ours_never_goes_backwards(program: Path, algorithm: str) -> None:
    """With a counter that wraps every millisecond, and threads that are preempted while they read."""
    sample = Harness(program, (CPU,), 3 * MS).check(algorithm, THREADS, Counter(500, bits=BITS_THAT_WRAP))
    assert sample.calls > 0
    assert sample.violations == 0


@pytest.mark.parametrize("algorithm", ["combined", "pvclock"])
def test_ours_has_no_data_races(code: dict[str, str], tmp_path: Path, algorithm: str) -> None:
    """A race ends the program with a report and an exit code of its own."""
    program = build.build(code, tmp_path, ("-fsanitize=thread", "-Wno-error=tsan"))
    sample = Harness(program, (CPU,), MS).check(algorithm, THREADS, Counter(500))
    assert sample.calls > 0


def test_an_order_that_is_broken_is_noticed(code: dict[str, str], tmp_path: Path) -> None:
    program = build.build(code | {sources.HELPER: BROKEN_HELPER}, tmp_path)
    sample = Harness(program, (CPU,), MS).check("combined", 1, Counter(0, serial=False))
    assert sample.violations > 0
    assert 0 < sample.worst_back_ns <= 5000


def test_code_that_does_not_compile_is_named(code: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"the harness does not compile: .*combined_counter\.c") as caught:
        build.build(code | {sources.HELPER: "int broken(\n"}, tmp_path)
    assert caught.value.code == ExitCode.INPUT


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "usage: "),
        (["measure", "none", "1", "0", "0", "serial", "32", "1"], "no algorithm 'none'"),
        (["measure", "plain", "0", "0", "0", "serial", "32", "1"], "threads is '0'"),
        (["measure", "plain", "1", "0,x", "0", "serial", "32", "1"], "a CPU is 'x'"),
        (["measure", "plain", "1", "0", "-1", "serial", "32", "1"], "latency in ns is '-1'"),
        (["measure", "plain", "1", "0", "0", "serial", "33", "1"], "bits is '33'"),
    ],
)
def test_wrong_arguments_end_in_one_line(program: Path, arguments: list[str], complaint: str) -> None:
    done = process.run([program, *arguments])
    assert done.returncode == 2
    assert complaint in done.output
    assert len(done.output.splitlines()) == 1


def test_the_helper_compiles_away_where_nobody_needs_it(code: dict[str, str], tmp_path: Path) -> None:
    """On 32-bit systems and uniprocessors a read is a read."""
    assert shutil.which("gcc")
    header = tmp_path / "include/linux/combined_counter.h"
    header.parent.mkdir(parents=True)
    header.write_text(code[sources.HELPER_HEADER])
    program = tmp_path / "direct.c"
    program.write_text(
        "#include <linux/combined_counter.h>\n"
        "static u32 seven(void) { return 7; }\n"
        "int main(void)\n"
        "{\n"
        "\tstruct combined_counter counter = { .read = seven };\n"
        "\treturn sizeof(counter) == sizeof(counter.read) ? (int)combined_counter_read(&counter) : 1;\n"
        "}\n"
    )
    flags = ["-Werror", f"-I{build.HERE / 'shim'}", f"-I{tmp_path / 'include'}"]
    assert process.run(["gcc", *flags, program, "-o", tmp_path / "direct"]).returncode == 0
    assert process.run([tmp_path / "direct"]).returncode == 7
