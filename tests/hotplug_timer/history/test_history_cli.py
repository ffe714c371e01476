"""The `history` commands from the outside: what they print and write, and how they end."""

import csv
import io
import json
import re
import shlex
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from junitparser import JUnitXml
from kcidb_io.schema import LATEST, V5_3
from prometheus_client.parser import text_string_to_metric_families

from docpages.fields import fields, load
from docpages.paths import DOCS
from hotplug_common.tables import print_tables, to_json, to_junit
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import cli
from hotplug_timer.history import kcidb, page, render
from hotplug_timer.history.entry import Entry, failure
from hotplug_timer.history.page import JUNIT, KCIDB, METRICS, PAGE, SUMMARY
from hotplug_timer.history.series import look
from hotplug_timer.history.store import RUNS, read
from tests.hotplug_timer.test_docs import keys
from tests.hotplug_timer.test_fuzz import HOSTILE, RAW
from tests.samples.histories import NOISES, entry, example, history, nights, started, write
from tests.samples.reportpages import classed, parse, text_of
from tests.samples.resultfiles import STOCK_COUNTS, records
from tests.samples.resultfiles import write as write_results

STYLES = ("table", "markdown", "csv", "json", "junit")
SLOWER = history(nights(1, NOISES["bad nights"], step_at=77))
STEADY = history(nights(1, NOISES["bad nights"]))
FASTER = history(nights(1, NOISES["bad nights"], step_at=77, step=0.9))
FAILED = ("failed", "--host", "h", "--variant", "l", "--reason", "r", "--store", "s")
DOWN = failure("madeup1", "patched", started(200), "no SSH after the reboot")


def run(*words: object) -> int:
    return cli.main(["history", *map(str, words)])


def check(folder: Path, entries: list[Entry], *words: object) -> int:
    return run("check", "--store", write(folder / "store", entries), *words)


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        (STEADY, ExitCode.OK, ""),
        (FASTER, ExitCode.OK, ""),
        (SLOWER, ExitCode.REGRESSION, "1 of 1 series slower: madeup1 patched smt=off is a regression: +"),
        ([*SLOWER, DOWN], ExitCode.REGRESSION, "1 of 1 series slower"),
        ([*STEADY, DOWN], ExitCode.OPERATION, "failed: no SSH after the reboot; what is printed is of older"),
        ([DOWN], ExitCode.OPERATION, "no SSH after the reboot"),
        (STEADY[:9], ExitCode.NO_BASELINE, "no series has enough history to be judged"),
        ([*STEADY[:9], DOWN], ExitCode.OPERATION, "no SSH after the reboot"),
        ([], ExitCode.NO_BASELINE, "no series has enough history"),
        # One night far off is to be confirmed first.
        ([*STEADY, entry(90, 0.45)], ExitCode.OK, ""),
        # A series that is new beside one that is not keeps nobody awake.
        ([*STEADY, *(entry(night, 1.0, variant="new") for night in range(3))], ExitCode.OK, ""),
        # What failed before the newest run is a note.
        ([failure("madeup1", "patched", started(-1), "down"), *STEADY], ExitCode.OK, ""),
    ],
    ids=range(12),
)
def test_check_ends_with_a_code_for_each_thing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: list[Entry], code: ExitCode, words: str
) -> None:
    assert check(tmp_path, entries) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if ": error: " in line]
    assert len(errors) == (code != ExitCode.OK)
    assert words in "".join(errors)


def test_regression_error_and_no_baseline_are_three_codes() -> None:
    assert (
        len({ExitCode.REGRESSION, ExitCode.OPERATION, ExitCode.NO_BASELINE, ExitCode.INPUT, ExitCode.OK}) == 5
    )


@pytest.mark.parametrize("style", STYLES)
def test_check_prints_the_same_verdicts_in_every_style(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], style: str
) -> None:
    assert check(tmp_path, example(), "--format", style) == ExitCode.REGRESSION
    printed = capsys.readouterr()
    assert printed.out.count("regression") >= 1
    assert printed.out.count("steady") >= 1
    assert "note: madeup1 stock: the run of 2026-09-10 02:00 failed: no SSH after the reboot" in printed.err
    if style == "csv":
        rows = list(csv.DictReader(io.StringIO(printed.out)))
        assert [(row["variant"], row["verdict"]) for row in rows] == [
            ("patched", "regression"),
            ("stock", "steady"),
        ]
    if style == "junit":
        xml = JUnitXml.fromstring(printed.out.encode())
        assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (2, 1, 0, 0)


def test_junit_of_what_failed_and_what_is_new() -> None:
    xml = JUnitXml.fromstring(to_junit(render.sheet(look([*STEADY[:5], DOWN]))).encode())
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (2, 0, 1, 1)


def test_bounds_are_those_that_were_asked_for(tmp_path: Path) -> None:
    assert check(tmp_path, SLOWER, "--min-change", 8) == ExitCode.OK
    assert check(tmp_path, SLOWER, "--recent", 2) == ExitCode.OK
    assert check(tmp_path, SLOWER, "--recent", 12) == ExitCode.REGRESSION


def test_a_host_is_kept_under_the_name_it_is_given(tmp_path: Path) -> None:
    """As the inventory calls it: what is said of it while it is down has to be of the same host."""
    results, folder = (
        write_results(tmp_path / "a.jsonl", records("r1", "stock", [2.0], [1.0])),
        tmp_path / "store",
    )
    assert run("add", results, "--store", folder, "--host", "lpar17") == ExitCode.OK
    assert (
        run("failed", "--host", "lpar17", "--variant", "l", "--reason", "down", "--store", folder)
        == ExitCode.OK
    )
    assert {json.loads(line)["host"] for line in (folder / RUNS).read_text().splitlines()} == {"lpar17"}
    assert run("add", results, "--store", folder, "--host", "lpar17") == ExitCode.OK
    assert run("add", results, "--store", folder) == ExitCode.INPUT
    assert run("add", results, "--store", folder, "--host", " ") == ExitCode.USAGE
    assert len((folder / RUNS).read_text().splitlines()) == 2


def test_what_a_host_has_measured_of_a_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that failed measured nothing, and another kernel is not this one."""
    folder = tmp_path / "store"
    words = ("stock=6.1-a", "patched=6.1-b", "expedited=6.1-a", "--store", folder)

    assert run("measured", *words, "--host", "madeup1") == ExitCode.OK
    assert capsys.readouterr().out == "", "a history that begins"
    entries = [
        replace(STEADY[0], variant="stock", kernel="6.1-a"),
        replace(STEADY[1], variant="patched", kernel="6.1-old"),
        replace(STEADY[2], variant="expedited", kernel="6.1-a", failed="failed"),
    ]
    write(folder, entries)
    for host, expected in (("madeup1", "stock\n"), ("another", "")):
        assert run("measured", *words, "--host", host) == ExitCode.OK
        assert capsys.readouterr().out == expected
    assert run("measured", "stock", "--host", "madeup1", "--store", folder) == ExitCode.USAGE


def test_what_last_night_made_suspect_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("suspects", "--host", "madeup1", "--store", tmp_path / "store")
    assert run(*words) == ExitCode.OK
    assert capsys.readouterr().out == "", "a history that begins"

    entries = [*STEADY, entry(90, 0.45)]
    assert check(tmp_path, entries, "--format", "json") == ExitCode.OK
    [series] = json.loads(capsys.readouterr().out)["series"]
    assert (series["verdict"], series["boots"], series["spread_percent"]) == ("suspect", 1, 4.0)
    assert run(*words) == ExitCode.OK
    assert capsys.readouterr().out == "patched\n"
    assert run(*words[:2], "another", *words[3:]) == ExitCode.OK
    assert capsys.readouterr().out == ""
    assert render.sentence(look(entries).series[0]).endswith(" s, and 0.450 s on the newest night")

    raw = page.render_page(look(entries), [])
    mind = text_of(classed(parse(raw), "mind")[0])
    assert re.fullmatch(
        r"madeup1 patched smt=off: suspect at 0.30. s, and 0.450 s on the newest night", mind.strip()
    )
    assert 'id="changes"' not in raw

    again = [replace(entry(91, 0.44), run_id=f"again {at}", boot=f"again {at}") for at in range(4)]
    assert check(tmp_path, [*entries, *again]) == ExitCode.REGRESSION
    printed = capsys.readouterr()
    assert "% (confirmed) since 2026-10-30 02:00" in printed.err
    assert run(*words) == ExitCode.OK
    assert capsys.readouterr().out == ""


def test_check_prints_which_step_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, STEADY, "--format", "csv") == ExitCode.OK
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert 3.0 < float(row["finds_percent"]) < 5.0
    assert float(row["finds_at_kernel_percent"]) == 3.0
    assert check(tmp_path, STEADY[:9]) == ExitCode.NO_BASELINE
    assert re.search(r"4\.0% +- +- ", capsys.readouterr().out)


def test_a_series_that_ended_is_left_out_by_its_age(tmp_path: Path) -> None:
    """A retired variant is not to keep a script awake for ever."""
    entries = [*SLOWER, *(entry(night, 1.0, variant="new") for night in range(90, 130))]
    assert check(tmp_path, entries) == ExitCode.REGRESSION
    assert check(tmp_path, entries, "--days", 41) == ExitCode.OK
    assert check(tmp_path, entries, "--days", 40) == ExitCode.OK
    assert check(tmp_path, entries, "--days", 9) == ExitCode.NO_BASELINE
    assert check(tmp_path, [], "--days", 9) == ExitCode.NO_BASELINE


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["check", "--store", "none"], ExitCode.INPUT, "cannot open none/runs.jsonl: No such file"),
        (
            ["check", "--store", "good", "--recent", "0"],
            ExitCode.USAGE,
            "--recent: '0' is not a whole number",
        ),
        (["check", "--store", "good", "--min-change", "-1"], ExitCode.USAGE, "--min-change: '-1' is not a"),
        (["check", "--store", "good", "--min-change", "nan"], ExitCode.USAGE, "--min-change: 'nan' is not"),
        (["check", "--store", "good", "--days", "0"], ExitCode.USAGE, "--days: '0' is not a whole number"),
        (["check", "--store", "good", "--days", "36501"], ExitCode.USAGE, "name 1 to 36500"),
        (["check", "--store", "bad"], ExitCode.INPUT, "bad/runs.jsonl:1: not a JSON object"),
        (["check", "--store", "newer"], ExitCode.INPUT, "newer than hotplug-timer/history/2; use the"),
        (["add", "none.jsonl", "--store", "s"], ExitCode.INPUT, "cannot read none.jsonl"),
        (["add", "bad/runs.jsonl", "--store", "s"], ExitCode.INPUT, "bad/runs.jsonl:1: not a JSON object"),
        (["add", "r.jsonl", "--store", "bad/runs.jsonl"], ExitCode.ENVIRONMENT, "cannot make"),
        (
            ["failed", *["--host", "h", "--variant", "l", "--reason"], " ", "--store", "s"],
            ExitCode.USAGE,
            "--reason: is empty",
        ),
        (
            [*FAILED, "--started", "noon"],
            ExitCode.USAGE,
            "--started 'noon' is not a time with its offset; write 2026-",
        ),
        (
            [*FAILED, "--started", "2026-01-01T00:00"],
            ExitCode.USAGE,
            "is not a time with its offset",
        ),
        (
            [*FAILED, "--started", "0001-01-01T00:00+14:00"],
            ExitCode.USAGE,
            "is not a time with its offset",
        ),
        (
            ["report", *["--store", "good", "--output-dir", "out", "--origin", "Kernel-CI"]],
            ExitCode.USAGE,
            "--origin 'Kernel-CI' is not a name KCIDB takes",
        ),
        (
            ["report", *["--store", "good", "--output-dir", "out", "--metrics", "out/metrics.txt"]],
            ExitCode.USAGE,
            "node_exporter reads .prom files only",
        ),
        (
            ["report", "--store", "good", "--output-dir", "r.jsonl"],
            ExitCode.ENVIRONMENT,
            "cannot write the report",
        ),
        (
            ["report", *["--store", "good", "--output-dir", "out", "--metrics", "r.jsonl/m.prom"]],
            ExitCode.ENVIRONMENT,
            "cannot write r.jsonl/m.prom",
        ),
    ],
    ids=range(19),
)
def test_what_is_wrong_is_one_line_and_a_code(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: ExitCode,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("good"), STEADY)
    write(Path("bad"), [], tail="x\n")
    write(Path("newer"), [], tail='{"schema":"hotplug-timer/history/9"}\n')
    write_results(Path("r.jsonl"), records("r1", "stock", [2.0], [1.0]))
    assert run(*words) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert message in printed.err


def test_from_result_files_to_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for night, seconds in enumerate(nights(1, NOISES["independent"], count=12)):
        lines = records(f"r{night}", "stock", [seconds] * 3, [seconds / 3], counts=dict(STOCK_COUNTS))
        lines[0]["started"] = started(night)
        files.append(write_results(tmp_path / f"{night}.jsonl", lines))
    store = tmp_path / "store"
    assert run("add", *files[:8], "--store", store) == ExitCode.OK
    assert run("check", "--store", store) == ExitCode.NO_BASELINE
    assert "insufficient history: 8 of 10 nights" in capsys.readouterr().out
    assert run("add", *files, "--store", store) == ExitCode.OK
    assert capsys.readouterr().out == "4 added, 8 known already\n"
    assert run("check", "--store", store) == ExitCode.OK
    words = [
        "--host",
        "lpar1",
        "--variant",
        "stock",
        "--reason",
        "no SSH",
        "--started",
        "2027-01-01T02:00+02:00",
    ]
    assert run("failed", *words, "--store", store) == ExitCode.OK
    assert run("failed", *words, "--store", store) == ExitCode.OK
    printed = capsys.readouterr()
    assert printed.out.endswith("1 added\n0 added, 1 known already\n")
    assert "note: lpar1 stock: the run of 2027-01-01 00:00 failed: no SSH" in printed.err
    assert run("check", "--store", store) == ExitCode.OPERATION
    assert len(read(store).entries) == 13


def test_a_cut_line_is_told_by_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = write(tmp_path / "store", STEADY, tail='{"record"')
    assert run("check", "--store", store) == ExitCode.OK
    assert f"note: {store / RUNS}:91: the last line is cut short and was left out" in capsys.readouterr().err
    assert run("report", "--store", store, "--output-dir", tmp_path) == ExitCode.OK
    assert "cut short" in capsys.readouterr().err
    assert "the last line is cut short" in (tmp_path / PAGE).read_text("utf-8")
    words = ["--host", "other", "--variant", "stock", "--reason", "no SSH", "--started", started(0)]
    assert run("failed", *words, "--store", store) == ExitCode.OK
    assert "was removed" in capsys.readouterr().err
    assert run("check", "--store", store, "--days", 80) == ExitCode.OK
    assert capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trend")
    page.write_report(look([*example(), DOWN]), ["a <note>"], "madeup", folder, None)
    return folder


def test_the_page_says_it_all_and_needs_nothing(written: Path) -> None:
    text = (written / PAGE).read_text("utf-8")
    root = parse(text)
    assert [text_of(one) for one in classed(root, "big")] == ["+5.9%"]
    assert "regression" in [text_of(one) for one in classed(root, "verdict")]
    mind = text_of(classed(root, "mind")[0])
    assert "madeup1 patched: the run of 2027-02-17 02:00 failed: no SSH after the reboot" in mind
    assert "a <note>" in mind
    assert "181 runs, 3 of them failed; 2 series" in text_of(root)
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert len(list(root.iter("svg"))) == 2
    [first, second] = [text_of(one) for one in root.iter("desc")]
    assert "from 2026-10-17 on +5.9%, from 0.300 to 0.318; 2 failed" in first
    assert "89 nights from 2026-08-01 to 2026-10-29" in second


def test_the_report_without_a_single_success(tmp_path: Path) -> None:
    page.write_report(look([DOWN]), [], "madeup", tmp_path, None)
    text = text_of(parse((tmp_path / PAGE).read_text("utf-8")))
    assert "No run has succeeded yet" in text
    assert "no SSH after the reboot" in text


def test_kcidb_accepts_what_is_written(written: Path) -> None:
    content = json.loads((written / KCIDB).read_text("utf-8"))
    V5_3.validate(content)
    assert LATEST.is_compatible(content)
    assert [(test["path"], test["status"]) for test in content["tests"]] == [
        ("hotplug_timer.smt_off.patched", "FAIL"),
        ("hotplug_timer.smt_off.stock", "PASS"),
        ("hotplug_timer.run.patched", "MISS"),
    ]
    builds = {build["id"]: build["checkout_id"] for build in content["builds"]}
    assert {test["build_id"] for test in content["tests"]} == set(builds)
    assert set(builds.values()) == {checkout["id"] for checkout in content["checkouts"]}


def test_kcidb_ids_stay_when_more_is_added() -> None:
    whole = json.loads(kcidb.to_json(look([*STEADY, DOWN]), "madeup"))
    again = json.loads(kcidb.to_json(look([*STEADY, entry(150, 1.0, variant="other"), DOWN]), "madeup"))
    assert {test["id"] for test in whole["tests"]} < {test["id"] for test in again["tests"]}


def samples(path: Path) -> dict[str, list[Any]]:
    families = text_string_to_metric_families(path.read_text("utf-8"))
    return {family.name: family.samples for family in families}


def test_metrics_are_what_prometheus_reads(written: Path) -> None:
    found = samples(written / METRICS)
    assert all(name.startswith("hotplug_timer_") for name in found)
    verdicts = {
        (one.labels["variant"], one.labels["verdict"]): one.value for one in found["hotplug_timer_verdict"]
    }
    assert verdicts["patched", "regression"] == 1
    assert verdicts["patched", "steady"] == 0
    assert verdicts["stock", "steady"] == 1
    assert sum(verdicts.values()) == 2
    [ratio] = [one.value for one in found["hotplug_timer_change_ratio"] if one.labels["variant"] == "patched"]
    assert ratio == pytest.approx(0.059, abs=0.001)
    newest = {one.labels["variant"]: one.value for one in found["hotplug_timer_newest_run_failed"]}
    assert newest == {"patched": 1, "stock": 0}
    failures = {one.labels["variant"]: one.value for one in found["hotplug_timer_failed_runs"]}
    assert failures == {"patched": 2, "stock": 1}


def test_metrics_replace_the_file_as_a_whole(tmp_path: Path) -> None:
    """Who has the old file open reads the old one to its end; nothing else is left behind."""
    path = tmp_path / "collector" / "switch.prom"
    page.write_report(look(STEADY), [], "madeup", tmp_path, path)
    with path.open() as before:
        page.write_report(look(SLOWER), [], "madeup", tmp_path, path)
        assert 'verdict="steady"' in before.read()
    assert [one.name for one in path.parent.iterdir()] == ["switch.prom"]
    assert not (tmp_path / METRICS).exists()


def test_every_file_of_the_report_is_there(written: Path) -> None:
    assert sorted(one.name for one in written.iterdir()) == sorted((PAGE, SUMMARY, JUNIT, KCIDB, METRICS))
    JUnitXml.fromfile(str(written / JUNIT))


@pytest.mark.parametrize(("name", "reason"), list(pairwise((*HOSTILE, HOSTILE[0]))), ids=range(len(HOSTILE)))
def test_no_name_harms_any_output(tmp_path: Path, name: str, reason: str) -> None:
    entries = [entry(night, 1.0, variant=name, host=name, operation=name) for night in range(11)]
    outlook = look([*entries, failure(name, reason, started(50), reason)])
    page.write_report(outlook, [reason], "madeup", tmp_path, None)
    for file in tmp_path.iterdir():
        assert not RAW.search(file.read_text("utf-8")), file
    parse((tmp_path / PAGE).read_text("utf-8"))
    V5_3.validate(json.loads((tmp_path / KCIDB).read_text("utf-8")))
    assert samples(tmp_path / METRICS)
    for style in STYLES:
        stream = io.StringIO()
        print_tables(render.sheet(outlook), style, stream)
        assert not RAW.search(stream.getvalue())


def test_every_key_of_the_summary_is_documented_and_no_other() -> None:
    entries = [*SLOWER, DOWN]
    content = json.loads(to_json(render.sheet(look(entries))))
    names = {name for name in keys(content) if not name.startswith("series.counts.")}
    schema = load("history-summary-v1")
    assert {field.name for field in fields(schema, schema)} == names
    Draft202012Validator(schema).validate(content)


def test_the_example_is_what_its_script_writes(tmp_path: Path) -> None:
    kept = DOCS / "examples/history" / RUNS
    assert (write(tmp_path, example()) / RUNS).read_bytes() == kept.read_bytes()


def test_the_commands_of_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "guides/operators/history.md").read_text("utf-8")
    commands = re.findall(r"^hotplug-timer (history .+)$", text, re.MULTILINE)
    assert len(commands) == 5
    shutil.copytree(DOCS / "examples/demo", tmp_path / "results/raw/lab1")
    monkeypatch.chdir(tmp_path)
    codes = []
    for command in commands:
        words = [shlex.split(command)[0]]
        for word in shlex.split(command)[1:]:
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        codes.append(cli.main(words))
    assert codes == [ExitCode.OK, ExitCode.OK, ExitCode.OPERATION, ExitCode.OK, ExitCode.OK]
    assert (tmp_path / "results/trend" / PAGE).exists()


def test_a_fault_is_no_verdict(tmp_path: Path) -> None:
    for origin, metrics in (("no name", None), ("madeup", tmp_path / "metrics.txt")):
        with pytest.raises(ToolError) as caught:
            page.write_report(look(STEADY), [], origin, tmp_path, metrics)
        assert caught.value.code == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []
