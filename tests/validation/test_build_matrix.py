"""What the series touches, compiled with W=1 for three architectures, and without what it builds on.

Proven: in each configuration, whatever compiled without the series compiles with it, and the compiler has
nothing to say that it did not say before; and each file was compiled in one configuration at least.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from matrix import CONFIGURATIONS, Bench, Configuration, problems
from proving import RESULTS, none

from hotplug_common.paths import Paths
from tests.kernel import patchfiles, workshop
from tests.kernel.workshop import Workshop

pytestmark = pytest.mark.timeout(3600)
per_configuration = pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.name)


@dataclass
class Series:
    """The series of a base, and a workshop to build it in."""

    shop: Workshop
    files: list[str]
    results: Path

    def listing(self, configuration: Configuration) -> Path:
        """Where it is kept what a configuration compiled, for a later run that resumes this one."""
        return self.results / f"{configuration.name}.objects"


@pytest.fixture(scope="module")
def series(pytestconfig: pytest.Config) -> Iterator[Series]:
    base = pytestconfig.getoption("--base")
    patches = [patch for patch in patchfiles.all_patches() if patch.base == base]
    if not patches:
        pytest.skip(f"the series of {base} is empty")
    files = sorted({file for patch in patches for file in patch.touched if file.endswith(".c")})
    results = RESULTS / "build_matrix"
    results.mkdir(parents=True, exist_ok=True)
    with workshop.opened(base, Paths.from_environment()) as shop:
        yield Series(shop, files, results)


@per_configuration
def test_series_compiles_as_silently_as_stock(configuration: Configuration, series: Series) -> None:
    shop = series.shop
    bench = Bench(shop, configuration)
    series.listing(configuration).unlink(missing_ok=True)
    with shop.at(0):
        bench.configure()
        stock = bench.compile(bench.objects(series.files))
    assert stock.objects, stock.output[-3000:]
    with shop.at(len(shop.patches)):
        patched = bench.compile(bench.objects(series.files))
    none(problems(stock, patched))
    series.listing(configuration).write_text("\n".join(sorted(patched.objects)) + "\n")


def test_every_file_was_compiled_somewhere(series: Series) -> None:
    listings = [series.listing(configuration) for configuration in CONFIGURATIONS]
    if not all(listing.exists() for listing in listings):
        pytest.skip("not all configurations have passed")
    compiled = {name for listing in listings for name in listing.read_text().split()}
    with series.shop.at(len(series.shop.patches)):
        units = {file: workshop.units_of(series.shop.tree, file) for file in series.files}
    missing = [
        file
        for file, including in units.items()
        if not any(unit.removesuffix(".c") + ".o" in compiled for unit in including)
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("bait", "expected"),
    [
        ("static int bait(void) { int unused; return 0; }", "kernel/cpu.c: warning:"),
        ("int broken(void) { return undeclared; }", "kernel/cpu.o does not compile any more"),
    ],
)
def test_a_bait_is_noticed(bait: str, expected: str, series: Series) -> None:
    """The comparison above, with something to find."""
    bench = Bench(series.shop, next(c for c in CONFIGURATIONS if c.name == "x86-64-no-smp"))
    with series.shop.at(0):
        bench.configure()
        stock = bench.compile(["kernel/cpu.o"])
        with (series.shop.tree / "kernel/cpu.c").open("a") as source:
            source.write(bait + "\n")
        spoilt = bench.compile(["kernel/cpu.o"])
    assert any(expected in problem for problem in problems(stock, spoilt))
