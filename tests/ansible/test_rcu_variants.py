"""Whole runs of rcu_variants.yml against the fake host, down to the table."""

from __future__ import annotations

import csv
import json

import pytest

from tests.ansible.refusals import Case, Refusals, refuse
from tests.ansible.test_ab import assert_back, assert_fails
from tests.fakes.fake_lpar import DEFAULT_RELEASE, FakeLpar

# Eight boots where an A/B run has four.
pytestmark = pytest.mark.timeout(600)

NAMES = ["stock", "revert-442bf3aaf55a", "cpuidle-expedited"]


@pytest.fixture
def lpar(host: FakeLpar) -> FakeLpar:
    """A fake host with a kernel for every row."""
    give_kernels(host)
    return host


def give_kernels(host: FakeLpar) -> None:
    """Give it a kernel for every row."""
    del host.variables["ab_variants"]
    host.variables["rcu_variants_artifacts"] = {name: str(host.artifact(name)) for name in NAMES}


@pytest.mark.slow
def test_four_rows_in_turns_and_the_table(lpar: FakeLpar) -> None:
    result = lpar.play("rcu_variants.yml")

    assert result.code == 0, result.output
    order = [*NAMES, "rcu_expedited", "rcu_expedited", *reversed(NAMES)]
    files = sorted((lpar.results / "raw/fake").iterdir())
    assert [file.name for file in files] == [f"{n:02}-{name}.jsonl" for n, name in enumerate(order, start=1)]
    runs = [json.loads(file.read_text().splitlines()[0]) for file in files]
    assert {tuple(run["settings"]["operations"]) for run in runs} == {("cpus=1-15:off", "cpus=1-15:on")}
    assert runs[3]["host"]["kernel_release"] == runs[0]["host"]["kernel_release"]
    table = lpar.results / "table/fake"
    rows = list(csv.DictReader((table / "rcu-variants.csv").read_text().splitlines()))
    assert [(row["direction"], row["variant"], row["n"], row["mean_s"]) for row in rows] == [
        (way, name, "4", "0.5" if name == "rcu_expedited" else "1.0")
        for way in ("off", "on")
        for name in [*NAMES, "rcu_expedited"]
    ]
    assert sorted(path.name for path in table.iterdir()) == [
        "rcu-variants.csv",
        "rcu-variants.json",
        "rcu-variants.md",
    ]
    assert "| (4) | rcu_expedited |" in result.flat
    assert_back(lpar)


@pytest.mark.slow
def test_a_row_is_measured_beside_one_that_was_and_makes_the_table(lpar: FakeLpar) -> None:
    lpar.put("proc/sys/kernel/osrelease", "6.12-stock")
    lpar.time(lpar.results / "raw/fake/01-stock.jsonl", "stock", "cpus=1-3", boot_method="kexec")
    lpar.put("proc/sys/kernel/osrelease", DEFAULT_RELEASE)

    result = lpar.play(
        "rcu_variants.yml",
        rcu_variants_rows=["stock", "rcu_expedited"],
        rcu_variants_cpus="1-3",
        ab_once=True,
    )

    assert result.code == 0, result.output
    assert sorted(path.name for path in (lpar.results / "raw/fake").iterdir()) == [
        "01-stock.jsonl",
        "02-rcu_expedited.jsonl",
    ]
    rows = json.loads((lpar.results / "table/fake/rcu-variants.json").read_text())["rows"]
    assert [row["row"] for row in rows] == [1, 4, 1, 4]
    assert_back(lpar)


@pytest.mark.slow
def test_some_rows_and_a_cpu_list(lpar: FakeLpar) -> None:
    lpar.variables["rcu_variants_artifacts"] = {"stock": str(lpar.artifact("stock"))}

    result = lpar.play(
        "rcu_variants.yml", rcu_variants_rows=["stock", "rcu_expedited"], rcu_variants_cpus="1-3"
    )

    assert result.code == 0, result.output
    assert "2 iterations of cpus=1-3 each" in result.flat
    settings = {
        file.name: json.loads(file.read_text().splitlines()[0])["rcu"]["rcu_expedited"]
        for file in (lpar.results / "raw/fake").iterdir()
    }
    assert settings == {
        "01-stock.jsonl": "0",
        "02-rcu_expedited.jsonl": "1",
        "03-rcu_expedited.jsonl": "1",
        "04-stock.jsonl": "0",
    }
    rows = json.loads((lpar.results / "table/fake/rcu-variants.json").read_text())["rows"]
    assert [row["row"] for row in rows] == [1, 4, 1, 4]
    assert_back(lpar)


@pytest.mark.slow
def test_check_mode_changes_nothing_and_says_what_a_run_would_do(lpar: FakeLpar) -> None:
    before = {path: path.read_bytes() for path in lpar.root.rglob("*") if path.is_file()}

    result = lpar.play("rcu_variants.yml", "--check")

    assert result.code == 0, result.output
    assert (
        "would measure stock, revert-442bf3aaf55a, cpuidle-expedited, rcu_expedited, rcu_expedited,"
        " cpuidle-expedited, revert-442bf3aaf55a, stock, 2 iterations of cpus=1-15 each" in result.flat
    )
    assert "check mode: the table would go to" in result.flat
    assert {path: path.read_bytes() for path in lpar.root.rglob("*") if path.is_file()} == before
    assert not lpar.results.exists()


@pytest.mark.slow
def test_rows_that_are_not_what_they_say_make_no_table(lpar: FakeLpar) -> None:
    """The same kernel under two names: the results are kept, the host is back, the run has failed."""
    lpar.artifact("cpuidle-expedited", boots="6.12-stock", release="6.12-stock")

    result = lpar.play("rcu_variants.yml", rcu_variants_rows=["stock", "cpuidle-expedited"])

    assert_fails(result, "row cpuidle-expedited ran 6.12-stock, the stock kernel")
    assert len(list((lpar.results / "raw/fake").iterdir())) == 4
    assert not (lpar.results / "table").exists()
    assert_back(lpar)


@pytest.mark.slow
def test_a_failed_row_keeps_its_results_and_makes_no_table(lpar: FakeLpar) -> None:
    lpar.put("timer-fault", "fails")

    result = lpar.play("rcu_variants.yml")

    assert_fails(result, "variant 'stock' did not complete")
    assert not (lpar.results / "table").exists()
    assert_back(lpar)


def one_cpu(host: FakeLpar) -> None:
    host.put("sys/devices/system/cpu/present", "0")


REFUSED = [
    Case(
        "variables",
        [
            "rcu_variants_rows names revert; the table has stock, revert-442bf3aaf55a,",
            "name stock, and one row or more to hold against it",
            "rcu_variants_artifacts has no kernel for cpuidle-expedited",
        ],
        {
            "rcu_variants_rows": ["cpuidle-expedited", "revert"],
            "rcu_variants_artifacts": {"stock": "/srv/stock/artifact.json"},
        },
    ),
    Case("single", ["the host has one CPU, so none can go offline"], prepare=one_cpu),
]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """One run that refuses all hosts."""
    return refuse(tmp_path_factory.mktemp("refusals"), "rcu_variants.yml", REFUSED, give_kernels)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused(refusals: Refusals, case: Case) -> None:
    refusals.check(case)
