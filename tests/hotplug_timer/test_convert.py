"""Result files of the version before: read as they are, converted, and the same said of both."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest
from hotplug_host.timing.cycle import parse_operations
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.runner import Runner
from hotplug_timer import cli
from hotplug_timer.reader import read_files
from hotplug_timer.schema import RESULT, RESULT_2
from tests import GOLDEN
from tests.fakes.fakehost import FakeHost, FakeSysfs
from tests.samples.resultfiles import Record, records, write

OLD = GOLDEN / "results-v2"
#: What iterations of the version before had not.
LATER = ("direction", "switched", "durations_s")
FILES = sorted(OLD.glob("*/*.jsonl"))
RUN_KEYS = ("record", "run_id", "started", "tool_version", "host", "topology", "rcu")
ITERATION_KEYS = ("record", "run_id", "index", "operation", "phase", "started", "seconds", "status", "error")


def call(*words: object) -> tuple[int, str, str]:
    """Run a command; return its exit code and what it printed."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = cli.main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def lines_of(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def said_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[int, str, str]:
    """Run a command where the files are, so that both say the same names."""
    monkeypatch.chdir(folder)
    return call(*words)


def test_there_is_a_file_of_each_kind() -> None:
    assert len(FILES) == 17
    assert {path.parent.name for path in FILES} == {"switch", "demo", "clock-check", "rcu-variants"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_compare_says_the_same_of_a_file_and_its_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    new = tmp_path / path.name
    assert call("convert", path, "--output-dir", tmp_path) == (ExitCode.OK, f"{new}\n", "")
    whole = Draft202012Validator(RESULT.read())
    for record in lines_of(new):
        whole.validate(record)
    label = lines_of(path)[0]["label"]
    words = ("compare", path.name, "--format", "json", "--baseline", label)
    before = said_in(path.parent, monkeypatch, *words)
    assert before[0] == ExitCode.OK
    assert json.loads(before[1])
    assert said_in(tmp_path, monkeypatch, *words) == before


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("demo", ["compare", "--format", "json"]),
        ("clock-check", ["compare", "--format", "json", "--baseline", "tsc"]),
        ("rcu-variants", ["rcu-variants", "--format", "json"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_reads_several_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, words: list[str]
) -> None:
    files = sorted((OLD / folder).glob("*.jsonl"))
    assert call("convert", *files, "--output-dir", tmp_path)[0] == ExitCode.OK
    names = [path.name for path in files]
    before = said_in(OLD / folder, monkeypatch, words[0], *names, *words[1:])
    assert before[0] == ExitCode.OK, before
    assert said_in(tmp_path, monkeypatch, words[0], *names, *words[1:]) == before
    # Half of each: they are read together.
    mixed = [names[0], *(tmp_path / name for name in names[1:])]
    assert said_in(OLD / folder, monkeypatch, words[0], *mixed, *words[1:])[0] == ExitCode.OK


def test_a_history_takes_both_for_one_run(tmp_path: Path) -> None:
    old = OLD / "demo/01-stock.jsonl"
    assert call("convert", old, "-o", tmp_path / "new.jsonl")[0] == ExitCode.OK
    assert call("history", "add", old, "--store", tmp_path / "s")[1] == "1 added\n"
    again = call("history", "add", tmp_path / "new.jsonl", "--store", tmp_path / "s")
    assert again == (ExitCode.OK, "0 added, 1 known already\n", "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_is_lost(tmp_path: Path, path: Path) -> None:
    """Every value of the old records is in the new ones, but for what follows from others."""
    new = tmp_path / "new.jsonl"
    call("convert", path, "-o", new)
    for before, after in zip(lines_of(path), lines_of(new), strict=True):
        detail: Record = after.get("detail", {})
        keys = RUN_KEYS if before["record"] == "run" else ITERATION_KEYS
        assert all(before[key] == after[key] for key in keys if key in before)
        moved = {key: value for key, value in before.items() if key not in (*keys, "schema")}
        if before["record"] == "run":
            assert moved.pop("label") == after["variant"]
            for key, value in moved.pop("settings").items():
                assert value == {**after["settings"], **detail}[key]
        elif before["record"] == "end":
            restored = moved.pop("smt_restored", None)
            assert after["restored"] is (moved.pop("restored") if restored is None else restored)
            assert moved == {"finished": after["finished"], "outcome": after["outcome"]}
            continue
        # The CPUs of a clock check are those of its run; a measurement of another kind was null.
        moved.pop("cpus", None)
        for key, value in moved.items():
            assert value == detail.get(key)


def test_direction_and_number_of_cpus_come_from_the_lists(tmp_path: Path) -> None:
    call("convert", OLD / "demo/01-stock.jsonl", "-o", tmp_path / "new")
    found = {
        (line["operation"], line["detail"]["direction"], line["detail"]["switched"])
        for line in lines_of(tmp_path / "new")[1:-1]
    }
    assert found == {("smt=off", "off", 14), ("smt=on", "on", 14)}


def test_a_list_of_cpus_that_is_none_is_refused_by_its_line(tmp_path: Path) -> None:
    """The pattern of the schema lets it pass."""
    lines = lines_of(OLD / "demo/01-stock.jsonl")
    lines[1]["cpus_before"] = "5-3"
    with pytest.raises(ToolError, match=r"out:2: CPU range '5-3' runs backwards") as caught:
        read_files([write(tmp_path / "out", lines)])
    assert caught.value.code == ExitCode.INPUT


def oldest(lines: list[Record]) -> list[Record]:
    """The records as hotplug-timer/1 had them."""
    for name in ("operation_timeouts_s", "prepare", "cleanup", "traces"):
        lines[0]["settings"].pop(name, None)
    for line in lines[1:]:
        line.pop("trace", None)
    return [{**lines[0], "schema": "hotplug-timer/1"}, *lines[1:]]


def test_the_first_version_is_read_and_converted_too(tmp_path: Path) -> None:
    old = write(tmp_path / "old", oldest(lines_of(OLD / "demo/01-stock.jsonl")))
    call("convert", old, "-o", tmp_path / "new")
    (before,), (after,) = read_files([old]).runs, read_files([tmp_path / "new"]).runs
    assert list(before.iterations) == list(after.iterations)
    assert len(before.iterations) == len(lines_of(old)) - 2
    (run, *_) = lines_of(tmp_path / "new")
    assert (run["detail"]["prepare"], run["detail"]["traces"]) == (None, [])


# The command


def test_what_is_of_this_version_stays_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "new", records("r1", "stock", [2.0], [1.0]))
    code, out, err = call("convert", path)
    assert (code, err) == (ExitCode.OK, "")
    assert [json.loads(line) for line in out.splitlines()] == lines_of(path)


def test_several_files_make_one(tmp_path: Path) -> None:
    files = sorted((OLD / "demo").glob("*.jsonl"))
    assert call("convert", *files, "-o", tmp_path / "all")[0] == ExitCode.OK
    assert len(read_files([tmp_path / "all"]).runs) == len(files)


def test_a_line_cut_short_is_left_out_with_a_notice(tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    old.write_bytes((OLD / "demo/01-stock.jsonl").read_bytes()[:-20])
    code, _, err = call("convert", old, "-o", tmp_path / "new")
    assert code == ExitCode.OK
    assert f"note: {old}:{len(lines_of(tmp_path / 'new')) + 1}: the last line is cut short" in err


DEMO = OLD / "demo/01-stock.jsonl"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([DEMO, "-o", "there"], ExitCode.USAGE, "there exists"),
        ([DEMO, "--output-dir", "."], ExitCode.USAGE, "01-stock.jsonl exists"),
        ([OLD / "switch/stock.jsonl", DEMO, "--output-dir", "."], ExitCode.USAGE, "01-stock.jsonl exists"),
        ([DEMO, DEMO, "-o", "new"], ExitCode.INPUT, "was read already"),
        ([DEMO, "sub/01-stock.jsonl", "--output-dir", "d"], ExitCode.USAGE, "two of the files are called"),
        ([DEMO, "-o", "none/new"], ExitCode.ENVIRONMENT, "cannot write none/new"),
        ([DEMO, "--output-dir", "there"], ExitCode.ENVIRONMENT, "cannot write there"),
        (["there", "-o", "new"], ExitCode.INPUT, "there:1: not a JSON object"),
        (["none", "-o", "new"], ExitCode.INPUT, "cannot read none: No such file"),
        (["bad.jsonl", "-o", "new"], ExitCode.INPUT, "bad.jsonl:3: seconds: "),
        ([DEMO, "-o", "a", "--output-dir", "b"], ExitCode.USAGE, "not allowed with argument"),
    ],
)
def test_it_refuses_in_one_line_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    words: list[Any],
    code: ExitCode,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").write_text("precious\n")
    Path("sub").mkdir()
    Path("01-stock.jsonl").write_text("precious\n")
    bad = lines_of(DEMO)
    bad[2]["seconds"] = "long"
    write(Path("bad.jsonl"), bad)
    before = {path: path.read_bytes() for path in Path().glob("*") if path.is_file()}
    with contextlib.suppress(SystemExit):
        assert cli.main(["convert", *map(str, words)]) == code
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path: path.read_bytes() for path in Path().glob("**/*") if path.is_file()} == before


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def late(source: Path, target: Path) -> None:
        target.write_text("precious")
        link(source, target)

    monkeypatch.setattr("os.link", late)
    code, _, err = call("convert", DEMO, "-o", tmp_path / "new")
    assert (code, (tmp_path / "new").read_text()) == (ExitCode.USAGE, "precious")
    assert "new exists" in err
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


# Continuing a run that the version before began


def older(path: Path) -> list[Record]:
    """Turn a file of this version back into hotplug-timer/2, whole or cut."""
    found = []
    for line in lines_of(path):
        detail = line.pop("detail", {})
        line.pop("tool")
        if line["record"] == "run":
            line["schema"] = "hotplug-timer/2"
            line["label"] = line.pop("variant")
            line["smt"] = detail.pop("smt")
            del detail["hotplug_states"]
            line["settings"] |= detail
        else:
            line.pop("schema")
            detail = {name: value for name, value in detail.items() if name not in LATER}
            line.update(detail)
        if line["record"] == "end":
            line["smt_restored"] = line.pop("restored")
        found.append(line)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    root = tmp_path / "host"
    root.mkdir()
    host = FakeHost.build(root)
    settings = Settings(
        operations=parse_operations(["smt=off", "smt=on"]),
        variant="stock",
        iterations=2,
        count_iterations=0,
        warmup=0,
        settle_s=0.0,
        timeout_s=20.0,
        via="smt-control",
        boot_method="kexec",
        emulated=False,
        output=tmp_path / "out.jsonl",
        resume=False,
    )

    def execute(**changes: object) -> None:
        chosen = replace(settings, **changes)  # type: ignore[arg-type]
        with contextlib.closing(StopRequest()) as stop:
            Runner(chosen, FakeSysfs(host), stop, io.StringIO()).execute()

    return execute


def test_a_run_of_the_version_before_is_continued_once_converted(
    tmp_path: Path, run: Callable[..., None]
) -> None:
    output, copy = tmp_path / "out.jsonl", tmp_path / "copy.jsonl"
    run()
    cut = older(output)[:3]
    for line, record in enumerate(cut):
        assert RESULT_2.problem_of(record["record"], record) is None, line
    write(output, cut)
    with pytest.raises(ToolError, match="written for schema hotplug-timer/2") as caught:
        run(resume=True)
    assert (caught.value.code, lines_of(output)) == (ExitCode.INPUT, cut)
    assert f"hotplug-timer convert {output} -o COPY" in caught.value.hint
    assert call("convert", output, "-o", copy)[0] == ExitCode.OK
    run(resume=True, output=copy)
    first, second = read_files([copy]).runs
    assert [(item.operation, item.index) for item in first.iterations] == [("smt=off", 1), ("smt=on", 1)]
    assert [(item.operation, item.index) for item in second.iterations] == [("smt=off", 2), ("smt=on", 2)]
    assert (first.outcome, second.outcome) == (None, "complete")
