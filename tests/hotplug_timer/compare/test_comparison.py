import csv
import io
import json
import re
from pathlib import Path

import pytest
from junitparser import JUnitXml

from hotplug_common.tables import print_tables, to_csv, to_json, to_junit, to_markdown
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import key_of
from hotplug_timer.compare import text
from hotplug_timer.compare.comparison import Comparison, compare
from hotplug_timer.compare.summary import summarize
from hotplug_timer.reader import Dataset, read_files
from tests.samples.resultfiles import STOCK_COUNTS, Record, iteration, records, run_record, write

PATCHED_COUNTS = {
    "synchronize_rcu": 2,
    "synchronize_rcu_expedited": 2,
    "stop_machine": 1,
    "domain_rebuild": 1,
}


def load(tmp_path: Path, *runs: list[Record]) -> Dataset:
    return read_files([write(tmp_path / f"{number}.jsonl", run) for number, run in enumerate(runs)])


@pytest.fixture
def abba(tmp_path: Path) -> Dataset:
    """Two blocks of each variant, alternated, with one failed iteration."""
    failed = iteration(
        "r2", 3, "smt=off", 0.2, status="failed", path=None, error="CPU 5 online but should be offline",
        cpus_after="0,5,8",
    )  # fmt: skip
    second = records("r2", "patched", [0.30, 0.31], [0.10, 0.11], minute=1, counts=PATCHED_COUNTS)
    return load(
        tmp_path,
        records("r1", "stock", [2.70, 2.80], [1.00, 1.02], minute=0, counts=STOCK_COUNTS),
        [*second[:-1], failed, {**second[-1], "outcome": "failed"}],
        records("r3", "patched", [0.29, 0.32], [0.09, 0.12], minute=2),
        records("r4", "stock", [2.75, 2.90], [1.01, 1.03], minute=3),
    )


@pytest.fixture
def comparison(abba: Dataset) -> Comparison:
    return compare(abba, "stock")


def test_blocks_of_a_variant_are_taken_together_and_failures_left_out(comparison: Comparison) -> None:
    row = comparison.row("smt=off", "patched")
    assert row is not None
    assert row.seconds == (0.30, 0.31, 0.29, 0.32)
    assert row.effect is not None
    assert row.effect.verdict == "faster"
    assert row.effect.decrease_percent == pytest.approx(100 * (1 - 0.305 / 2.7875))
    baseline = comparison.row("smt=off", "stock")
    assert baseline is not None
    assert baseline.effect is None
    assert any(
        "patched smt=off timed iteration 3 failed and is left out: CPU 5 online" in text
        for text in comparison.notices
    )
    assert any("the run failed; what it finished counts" in text for text in comparison.notices)
    (caution,) = comparison.warnings
    assert caution.startswith("patched: two boots on a side show large effects only")


def test_direction_follows_the_baseline(abba: Dataset) -> None:
    row = compare(abba, "patched").row("smt=off", "stock")
    assert row is not None
    assert row.effect is not None
    assert row.effect.verdict == "slower"


def test_counts_come_from_counted_iterations(comparison: Comparison) -> None:
    stock, patched = comparison.count_row("smt=off", "stock"), comparison.count_row("smt=off", "patched")
    assert stock is not None
    assert patched is not None
    assert stock.typical("synchronize_rcu") == 29
    assert stock.typical("synchronize_rcu_expedited") is None
    assert patched.typical("stop_machine") == 1
    assert comparison.count_row("smt=on", "stock") is None


def test_warm_up_and_interrupted_seconds_do_not_count(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0])
    lines[2:2] = [
        iteration("r1", 1, "smt=off", 9.0, phase="warmup"),
        iteration("r1", 2, "smt=off", 8.0, status="interrupted", error="ended early", path=None),
    ]
    row = compare(load(tmp_path, lines), "stock").row("smt=off", "stock")
    assert row is not None
    assert row.seconds == (2.0,)


def refuses(data: Dataset, code: ExitCode, *words: str) -> None:
    with pytest.raises(ToolError) as caught:
        compare(data, "stock")
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


def test_different_topologies_are_refused(tmp_path: Path) -> None:
    other = records("r2", "patched", [1.0])
    other[0]["topology"]["threads_per_core"] = 4
    refuses(
        load(tmp_path, records("r1", "stock", [2.0]), other),
        ExitCode.INPUT,
        "0.jsonl and",
        "1.jsonl were measured on different topologies: ppc64le, 2 cores x SMT8, CPUs 0-15 and ppc64le,",
    )


def test_emulated_and_hardware_seconds_are_not_mixed(tmp_path: Path) -> None:
    refuses(
        load(tmp_path, records("r1", "stock", [2.0]), records("r2", "patched", [1.0], emulated=False)),
        ExitCode.INPUT,
        "some of these runs are emulated",
    )


def test_a_missing_baseline_names_the_variants(tmp_path: Path) -> None:
    refuses(
        load(tmp_path, records("r1", "a", [2.0]), records("r2", "b", [1.0])),
        ExitCode.USAGE,
        "no run is of variant 'stock'; there are a, b; choose one of them with --baseline",
    )


def test_one_variant_alone_is_shown_without_a_verdict(tmp_path: Path) -> None:
    comparison = compare(load(tmp_path, records("r1", "a", [2.0])), "stock")
    assert [row.effect for row in comparison.rows] == [None]


def test_files_without_a_sample_are_refused(tmp_path: Path) -> None:
    refuses(load(tmp_path, [run_record()]), ExitCode.INPUT, "no timed or counted iteration succeeded")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            records("r2", "stock", [2.0], kernel_release="6.12.118"),
            "stock: measured under 2 kernels (6.12.117-stock-1a2b3c4d #1 SMP; 6.12.118 #1 SMP); give each",
        ),
        (
            records("r2", "stock", [2.0], boot_method="firmware"),
            "different boot methods are mixed (kexec, firmware)",
        ),
        (records("r2", "stock", [2.0], hostname="lpar2"), "different hosts are mixed (lpar1, lpar2)"),
        (
            [run_record("r2"), iteration("r2", 1, "smt=off", 2.0, path="per-cpu")],
            "different paths are mixed (smt/control, per-cpu); use one powerpc-utils version",
        ),
        (
            [run_record("r2"), iteration("r2", 1, "smt=off", 2.0, driver="smt-control")],
            "different drivers are mixed (ppc64_cpu, smt-control)",
        ),
        (
            [{**run_record("r2"), "rcu": {"rcu_expedited": "1"}}],
            "stock: RCU settings differ between its runs",
        ),
        (
            records("r2", "stock", [2.1, 1.9, 2.05, 9.0, 2.02, 1.95, 2.0]),
            "stock smt=off: boot 2, sample 4 (9.000 s) is an outlier; look for",
        ),
    ],
)
def test_warnings_name_what_and_a_remedy(tmp_path: Path, second: list[Record], words: str) -> None:
    first = records("r1", "stock", [2.0])
    assert compare(load(tmp_path, first), "stock").warnings == ()
    warnings = compare(load(tmp_path, first, second), "stock").warnings
    assert len(warnings) == 1
    assert words in warnings[0]


def test_incomplete_runs_are_noticed(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0])
    lines[-1].update(outcome="interrupted", restored=False)
    notices = compare(load(tmp_path, lines, records("r2", "stock", [2.0])[:-1]), "stock").notices
    assert [text.partition(": ")[2] for text in notices] == [
        "the run was interrupted; what it finished counts",
        "the host was not put back as it was before the run",
        "the run's end is missing; what it finished counts",
    ]


@pytest.mark.parametrize("style", ["table", "markdown", "csv", "json", "junit"])
def test_golden_output(comparison: Comparison, golden: Path, tmp_path: Path, style: str) -> None:
    stream = io.StringIO()
    print_tables(text.sheet(comparison), style, stream)
    printed = stream.getvalue().replace(str(tmp_path), "DIR")
    assert _rounded(printed) == _rounded((golden / "compare" / f"abba.{style}").read_text())


def _rounded(text: str) -> str:
    """Round away the digits in which processors and libraries may differ."""
    return re.sub(r"\d+\.\d{7,}", lambda match: f"{float(match.group()):.6f}", text)


def test_json_and_csv_agree(comparison: Comparison) -> None:
    entries = json.loads(to_json(text.sheet(comparison)))["comparisons"]
    rows = list(csv.DictReader(io.StringIO(to_csv(text.sheet(comparison)))))
    assert [float(row["mean_s"]) for row in rows] == [entry["mean_s"] for entry in entries]
    assert [row["verdict"] for row in rows] == ["", "faster", "", "faster"]


def test_emulated_seconds_say_so_and_hardware_ones_do_not(tmp_path: Path, comparison: Comparison) -> None:
    hardware = compare(load(tmp_path, records("r9", "stock", [2.0], emulated=False)), "stock")
    for style in ("table", "markdown"):
        for which, emulated in ((comparison, True), (hardware, False)):
            stream = io.StringIO()
            print_tables(text.sheet(which), style, stream)
            assert ("(s, emulated)" in stream.getvalue()) == emulated


def test_too_few_samples_say_what_they_could_reach(tmp_path: Path) -> None:
    data = load(
        tmp_path,
        records("r1", "stock", [2.0, 2.1, 2.2], boot_id="one"),
        records("r2", "patched", [1.0, 1.1, 1.2], minute=1, boot_id="one"),
    )
    assert "too few samples: n = 3 cannot go below p = 0.1 " in to_markdown(
        text.sheet(compare(data, "stock"))
    )


def test_a_terminal_gets_colour_a_pipe_does_not(comparison: Comparison) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), io.StringIO()
    print_tables(text.sheet(comparison), "table", terminal)
    print_tables(text.sheet(comparison), "table", pipe)
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in pipe.getvalue()


def test_summary_has_the_stable_keys(abba: Dataset, comparison: Comparison) -> None:
    summary = json.loads(json.dumps(summarize(abba, comparison, "6.12")))
    assert (summary["cpus"], summary["line"], summary["emulated"]) == (16, "6.12", True)
    assert summary["variants"]["stock"]["off_s"] == [2.70, 2.80, 2.75, 2.90]
    assert summary["variants"]["patched"]["on_s"] == [0.10, 0.11, 0.09, 0.12]
    assert summary["variants"]["patched"]["counts"] == {"off": PATCHED_COUNTS}
    assert summary["variants"]["patched"]["failed"] == 1
    assert summary["speedup"]["off"] == pytest.approx(
        ((2.7 * 2.8 * 2.75 * 2.9) / (0.3 * 0.31 * 0.29 * 0.32)) ** 0.25
    )
    assert summary["speedup"]["on"] == pytest.approx(
        ((1 * 1.02 * 1.01 * 1.03) / (0.1 * 0.11 * 0.09 * 0.12)) ** 0.25
    )
    assert summary["speedup_of"] == "patched"


def test_speedup_is_of_patched_or_else_of_the_last_variant(tmp_path: Path) -> None:
    runs = [
        records(f"r{at}", variant, [4.0 / (at + 1)], minute=at)
        for at, variant in enumerate(["stock", "b", "c"])
    ]
    data = load(tmp_path, *runs)
    summary = summarize(data, compare(data, "stock"), "7.3")
    assert (summary["speedup_of"], summary["speedup"]) == ("c", {"off": pytest.approx(3.0), "on": None})
    alone = load(tmp_path, runs[0])
    assert summarize(alone, compare(alone, "stock"), "7.3")["speedup_of"] is None


def test_operation_keys() -> None:
    assert [key_of(name) for name in ("smt=off", "smt=on", "smt=4")] == ["off", "on", "smt4"]


def forced(tmp_path: Path, *runs: list[Record]) -> Comparison:
    return compare(load(tmp_path, *runs), "stock", force=True)


def test_force_compares_other_topologies_with_a_warning(tmp_path: Path) -> None:
    other = records("r2", "patched", [1.0])
    other[0]["topology"]["threads_per_core"] = 4
    comparison = forced(tmp_path, records("r1", "stock", [2.0]), other)
    assert [row.variant for row in comparison.rows] == ["stock", "patched"]
    assert "different topologies" in comparison.warnings[0]
    assert comparison.warnings[0].endswith("do not rely on the verdict, compare one kind at a time")
    stream = io.StringIO()
    print_tables(text.sheet(comparison), "table", stream)
    assert stream.getvalue().startswith("compared by --force, though the runs do not compare")


def test_force_compares_emulated_with_real_seconds_with_a_warning(tmp_path: Path) -> None:
    comparison = forced(
        tmp_path, records("r1", "stock", [2.0]), records("r2", "patched", [1.0], emulated=False)
    )
    assert [row.emulated for row in comparison.rows] == [True, False]
    assert "emulated and some are not" in comparison.warnings[0]
    assert "average (s, some emulated)" in text.seconds_table(comparison).headings


def test_force_changes_nothing_where_runs_compare(abba: Dataset, comparison: Comparison) -> None:
    assert compare(abba, "stock", force=True) == comparison


@pytest.mark.parametrize(
    ("step", "words"), [(0.1, "longer along the boot, by 37%"), (-0.1, "shorter along the")]
)
def test_drift_is_named_with_a_remedy(tmp_path: Path, step: float, words: str) -> None:
    seconds = [2.0 + step * at for at in range(10)]
    (warning,) = compare(load(tmp_path, records("r1", "stock", seconds)), "stock").warnings
    assert words in warning
    assert "--warmup and --settle" in warning


def test_a_slow_first_sample_asks_for_a_warm_up(tmp_path: Path) -> None:
    seconds = [9.0, 2.0, 2.1, 1.9, 2.05]
    (warning,) = compare(load(tmp_path, records("r1", "stock", seconds)), "stock").warnings
    assert warning.endswith(
        "sample 1 (9.000 s), the first one, is an outlier; add --warmup 1, or a longer --settle"
    )


def test_an_average_against_the_verdict_is_a_warning(tmp_path: Path) -> None:
    data = load(
        tmp_path,
        *(records(run, "stock", [2.0, 2.1, 2.2, 2.3, 2.15, 2.25, 2.05]) for run in ("r1", "r2", "r3", "r7")),
        *(records(run, "patched", [1.0, 1.1, 1.2, 1.3, 1.15, 1.25, 1.05]) for run in ("r4", "r5", "r8")),
        records("r6", "patched", [1.0, 1.1, 1.2, 1.3, 1.15, 1.25, 60.0]),
    )
    comparison = compare(data, "stock")
    row = comparison.row("smt=off", "patched")
    assert row is not None
    assert row.effect is not None
    assert (row.effect.verdict, row.effect.decrease_percent < 0) == ("faster", True)
    assert any("faster, yet its average says otherwise" in text for text in comparison.warnings)


def test_many_failures_are_counted_not_listed(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0])
    lines[-1:-1] = [
        iteration("r1", at, "smt=off", 0.2, status="failed", path=None, error="CPU 5") for at in range(2, 52)
    ]
    notices = compare(load(tmp_path, lines), "stock").notices
    assert len(notices) == 4
    assert notices[-1].endswith("stock: 47 more iterations did not succeed and are left out")


def three(tmp_path: Path) -> Comparison:
    off = [2.0 + at / 100 for at in range(8)]
    return compare(
        load(
            tmp_path,
            *(
                records(f"{variant}-{boot}", variant, [one * times for one in off])
                for variant, times in (("stock", 1), ("patched", 0.5), ("broken", 2))
                for boot in range(3)
            ),
            records("r4", "short", off[:1]),
        ),
        "stock",
    )


def test_several_variants_are_adjusted_and_say_so(tmp_path: Path) -> None:
    comparison = three(tmp_path)
    assert comparison.adjusted
    printed = to_markdown(text.sheet(comparison))
    assert "| p, Holm's |" in printed
    assert "adjusted by Holm's method for the number of variants" in printed


def test_junit_fails_where_a_variant_is_slower(tmp_path: Path) -> None:
    xml = JUnitXml.fromstring(to_junit(text.sheet(three(tmp_path))).encode())
    (suite,) = xml
    cases = {case.name: case for case in suite}
    assert set(cases) == {"patched", "broken", "short"}
    assert (suite.tests, suite.failures, suite.skipped) == (3, 1, 1)
    assert cases["patched"].result == []
    assert cases["patched"].time == pytest.approx(1.0175)
    (failure,) = cases["broken"].result
    assert failure.type == "slower"
    assert failure.message.startswith("slower; median decrease -100.0% (")
    assert cases["short"].is_skipped


def test_the_test_that_was_used_is_said(tmp_path: Path) -> None:
    many = [2.0 + at / 1000 for at in range(120)]

    def told(boots: str, more: int, n: int) -> str:
        """What is printed for both variants under the boots, and MORE boots of patched."""
        runs = [
            records(f"{variant}{boot}", variant, many[:n], minute=minute, boot_id=boot)
            for minute, variant in enumerate(("stock", "patched"))
            for boot in boots
        ]
        runs += [records(f"more{at}", "patched", many[:n]) for at in range(more)]
        return to_markdown(text.sheet(compare(load(tmp_path, *runs), "stock")))

    assert "p: two-sided Mann-Whitney test within this boot, asymptotic" in told("a", 0, 120)
    assert "p: two-sided Mann-Whitney test within this boot, exact" in told("a", 0, 5)
    assert "p: t test of boots that both variants share" in told("ab", 0, 5)
    assert "p: " not in told("a", 2, 5)


@pytest.mark.parametrize("variant", ["[red]x[/blue]", ":smile:", "a|b", "\x1b[2J"])
def test_a_variant_is_text_in_every_table(tmp_path: Path, variant: str) -> None:
    comparison = compare(load(tmp_path, records("r1", variant, [2.0])), "stock")
    stream = io.StringIO()
    print_tables(text.sheet(comparison), "table", stream)
    assert variant.replace("\x1b", "\\x1b") in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert to_markdown(text.sheet(comparison)).splitlines()[2].count("|") == 10


def boots_of(variant: str, seconds: list[list[float]], boot_id: str = "") -> list[list[Record]]:
    """A run of smt=off for each boot, or for one boot of this name."""
    return [
        records(f"{variant}{at}", variant, one, minute=at, boot_id=boot_id or f"{variant}{at}")
        for at, one in enumerate(seconds)
    ]


STOCK, FASTER = [[2.0, 2.1, 2.05], [2.1, 2.2, 2.15]], [[1.0, 1.1, 1.05], [1.1, 1.2, 1.15]]


def test_runs_of_one_boot_are_one_boot(tmp_path: Path) -> None:
    """Four runs of each variant, and still one boot a side."""
    runs = [*boots_of("stock", STOCK * 2, boot_id="s"), *boots_of("patched", FASTER * 2, boot_id="p")]
    row = compare(load(tmp_path, *runs), "stock").row("smt=off", "patched")
    assert row is not None
    assert row.effect is not None
    assert (row.effect.verdict, row.spread.boots, row.summary.n) == ("one boot a side", 1, 12)
    printed = to_markdown(text.sheet(compare(load(tmp_path, *runs), "stock")))
    # 0.36 of the logarithm of 2.1 / 1.1.
    assert "one boot a side: boots that differ by 23% explain it too" in printed
    assert "| smt=off | patched | 1 x 12 |" in printed


def test_a_run_whose_boot_is_not_known_is_a_boot_with_a_note(tmp_path: Path) -> None:
    runs = [
        *boots_of("stock", STOCK, boot_id="unknown"),
        *boots_of("patched", FASTER, boot_id="unknown"),
    ]
    comparison = compare(load(tmp_path, *runs), "stock")
    row = comparison.row("smt=off", "patched")
    assert row is not None
    assert row.effect is not None
    assert (row.effect.paired, row.effect.boots, row.effect.verdict) == (False, 2, "faster")
    assert sum("has not recorded which boot it was" in notice for notice in comparison.notices) == 4


def test_two_boots_get_a_caution_and_four_do_not(tmp_path: Path) -> None:
    runs = [*boots_of("stock", STOCK), *boots_of("patched", FASTER)]
    (caution,) = compare(load(tmp_path, *runs), "stock").warnings
    assert "measure four boots of each variant or more" in caution
    more = [*boots_of("stock", STOCK * 2), *boots_of("patched", FASTER * 2)]
    comparison = compare(load(tmp_path, *more), "stock")
    assert comparison.warnings == ()
    assert "| 0.029 |" in to_markdown(text.sheet(comparison))


def test_boots_without_the_baseline_are_left_out_of_pairs_with_a_warning(tmp_path: Path) -> None:
    runs = [
        records(
            f"{variant}{at}",
            variant,
            [seconds + at, seconds + at + 0.01],
            minute=int(10 * seconds) + at,
            boot_id=f"boot{at}",
        )
        for variant, seconds, boots in (("stock", 2.0, 3), ("rcu_expedited", 1.0, 4))
        for at in range(boots)
    ]
    comparison = compare(load(tmp_path, *runs), "stock")
    assert "rcu_expedited smt=off: 1 of 4 boots lack the baseline and are left out" in comparison.warnings[0]


def test_a_boot_unlike_the_others_divides_the_tests_with_a_warning(tmp_path: Path) -> None:
    far = [[1.0], [1.01], [1.02], [0.05]]
    runs = [*boots_of("stock", [[2.0], [2.01], [2.02], [2.03]]), *boots_of("patched", far)]
    warnings = compare(load(tmp_path, *runs), "stock").warnings
    assert any("and their permutation (p = 0.029) disagree" in one for one in warnings)
