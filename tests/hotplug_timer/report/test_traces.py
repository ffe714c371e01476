"""Which traces a report finds, and what it shows of them."""

import shutil
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import cli
from hotplug_timer.reader import read_files
from hotplug_timer.report import states
from hotplug_timer.report.tables import page_table
from hotplug_timer.report.traces import Traces, read_traces
from hotplug_timer.trace.flame import INLINE_BOXES, to_inline
from hotplug_timer.trace.states import SpentInState
from tests.samples.reportpages import TRACES, classed, page_of, parse, text_of, traced, traced_run
from tests.samples.resultfiles import records, write

GOLDEN_STATES = TRACES / "ppc64le-states.txt"


def traces_of(path: Path, *named: Path) -> Traces:
    return read_traces(read_files([path]).runs, named)


def run_naming(folder: Path, *files: str) -> Path:
    """Write a run that names traces of time per state, which need not be there."""
    lines = records("r1", "stock", [2.0])
    for index, file in enumerate(files, start=1):
        lines.insert(-1, traced("r1", index, "states", file))
    return write(folder / "stock.jsonl", lines)


def section(root: Element, name: str) -> Element:
    return next(element for element in root.iter("section") if element.get("aria-labelledby") == name)


def test_a_trace_named_in_the_result_file_is_read_beside_it(tmp_path: Path) -> None:
    found = traces_of(run_naming(tmp_path, "t.dat"))
    assert (found.found, len(found.notices)) == ((), 1)
    assert "its trace t.dat is not beside it" in found.notices[0]
    shutil.copyfile(GOLDEN_STATES, tmp_path / "t.dat")
    (one,) = traces_of(run_naming(tmp_path, "t.dat")).found
    assert (one.subject.mode, one.subject.operation, one.subject.variant) == ("states", "smt=off", "stock")
    assert [path.name for path in one.files] == ["t.dat"]


def test_the_text_of_a_trace_is_read_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "t.dat").write_bytes(b"\x17\x08\x44tracing and more")
    shutil.copyfile(GOLDEN_STATES, tmp_path / "t.txt")
    found = traces_of(run_naming(tmp_path, "t.dat"))
    assert [path.name for path in found.found[0].files] == ["t.txt"]
    assert found.notices == ()


def test_traces_of_one_variant_are_added_up_and_divided(tmp_path: Path) -> None:
    for name in ("a.dat", "b.dat"):
        shutil.copyfile(GOLDEN_STATES, tmp_path / name)
    path = run_naming(tmp_path, "a.dat", "b.dat", "a.dat")
    (both,) = traces_of(path).found
    (one,) = traces_of(run_naming(tmp_path, "a.dat")).found
    assert len(both.files) == 2
    state = (145, "takedown_cpu")
    totals = [states.Times("stock", len(each.files), each.analysis.by_state()) for each in (both, one)]  # type: ignore[attr-defined]
    assert totals[0].clock_s(state) == totals[1].clock_s(state)
    assert totals[0].spent[state].times == 2 * totals[1].spent[state].times


@pytest.mark.parametrize(
    "name", ["../secret.dat", "/etc/passwd", "..", "sub/t.dat", "a\0b", "x" * 5000, "\ud800"]
)
def test_a_name_that_leads_elsewhere_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "here").mkdir()
    shutil.copyfile(GOLDEN_STATES, tmp_path / "secret.dat")
    found = traces_of(run_naming(tmp_path / "here", name))
    assert found.found == ()
    assert len(found.notices) == 1


def test_a_trace_that_cannot_be_read_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    shutil.copyfile(GOLDEN_STATES, tmp_path / "good.dat")
    (tmp_path / "lost.dat").write_text("cpus=2\nCPU:3 [12 EVENTS DROPPED]\n")
    found = traces_of(run_naming(tmp_path, "lost.dat", "good.dat"))
    assert [path.name for path in found.found[0].files] == ["good.dat"]
    assert "the kernel lost 12 events" in found.notices[0]
    data = read_files([run_naming(tmp_path, "lost.dat")])
    root = parse(page_of(data, tmp_path, read_traces(data.runs, [])))
    assert "the kernel lost 12 events" in text_of(classed(root, "mind")[0])
    assert "--trace states" in text_of(section(root, "states"))


def test_a_failed_traced_transition_has_no_trace(tmp_path: Path) -> None:
    shutil.copyfile(GOLDEN_STATES, tmp_path / "t.dat")
    lines = records("r1", "stock", [2.0])
    lines.insert(-1, traced("r1", 1, "states", "t.dat", status="failed", error="lost", path=None))
    assert traces_of(write(tmp_path / "a", lines)) == Traces((), ())


def test_a_named_trace_is_that_of_the_run_which_calls_one_so(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copyfile(GOLDEN_STATES, elsewhere / "t.txt")
    found = traces_of(run_naming(tmp_path, "t.dat"), elsewhere / "t.txt")
    assert (found.found[0].subject.variant, found.notices) == ("stock", ())


def test_a_trace_both_beside_and_named_is_read_once(tmp_path: Path) -> None:
    shutil.copyfile(GOLDEN_STATES, tmp_path / "t.txt")
    found = traces_of(run_naming(tmp_path, "t.dat"), tmp_path / "t.txt")
    assert [[path.name for path in one.files] for one in found.found] == [["t.txt"]]


def test_a_named_trace_that_no_run_knows_is_shown_under_its_name(tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    shutil.copyfile(TRACES / "ppc64le-offcpu.txt", other)
    data = read_files([run_naming(tmp_path)])
    traces = read_traces(data.runs, [other])
    assert (traces.found[0].subject.variant, traces.found[0].subject.name) == (None, "other.txt")
    assert "other.txt" in text_of(section(parse(page_of(data, tmp_path, traces)), "offcpu"))


def test_a_named_trace_that_cannot_be_read_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, gone = run_naming(tmp_path), tmp_path / "gone.dat"
    arguments = ["report", str(result), "--output-dir", str(tmp_path / "out"), "--line", "6.12"]
    assert cli.main([*arguments, "--trace", str(gone)]) == ExitCode.INPUT
    assert "cannot read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(ToolError, match="lost events"):
        bad = tmp_path / "t.txt"
        bad.write_text("CPU:3 [EVENTS DROPPED]\n")
        traces_of(run_naming(tmp_path, "t.dat"), bad)


def test_the_command_takes_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_naming(tmp_path, "t.dat")
    out = tmp_path / "out"
    arguments = ["report", str(result), "--output-dir", str(out), "--line", "6.12"]
    assert cli.main(arguments) == ExitCode.OK
    assert "note: " in capsys.readouterr().err
    assert cli.main([*arguments, "--trace", str(GOLDEN_STATES)]) == ExitCode.OK
    assert "takedown_cpu" in (out / "report.html").read_text()


def test_time_per_state_has_a_picture_a_table_and_both_variants(tmp_path: Path) -> None:
    files = [traced_run(tmp_path, "stock", "states"), traced_run(tmp_path, "patched", "states", minute=1)]
    data = read_files(files)
    root = parse(page_of(data, tmp_path / "out", read_traces(data.runs, [])))
    shown = section(root, "states")
    (svg,) = shown.iter("svg")
    bars = [
        element for element in svg.iter("path") if (element.get("fill") or "").startswith("var(--series-")
    ]
    assert len(bars) == 2 * 4
    assert "takedown_cpu: stock 0.287754, patched 0.287754" in text_of(svg[1])
    (table,) = shown.iter("table")
    rows = [[text_of(cell) for cell in row] for row in next(table.iter("tbody"))]
    assert rows[0] == ["145", "takedown_cpu", *(["0.287754", "3", "0.114097"] * 2)]
    assert len(rows) == states.LISTED
    assert "stock.smt=off.states.txt, patched.smt=off.states.txt" in text_of(shown)


def test_off_cpu_time_is_what_trace_prints_and_draws(tmp_path: Path) -> None:
    data = read_files([traced_run(tmp_path, "stock", "offcpu")])
    shown = section(parse(page_of(data, tmp_path / "out", read_traces(data.runs, []))), "offcpu")
    (svg,) = shown.iter("svg")
    assert "smt=off, stock" in text_of(svg[0])
    names = [text_of(group[0]) for group in svg.iter("g")]
    assert any(name.startswith("synchronize_rcu_normal: ") for name in names)
    assert any("synchronize_rcu_normal < " in text_of(row) for row in shown.iter("tr"))
    assert "did not end in the trace" in text_of(shown)


def test_without_traces_the_sections_say_how_to_record_them(tmp_path: Path) -> None:
    data = read_files([write(tmp_path / "a", records("r1", "stock; reboot", [2.0], [1.0]))])
    root = parse(page_of(data, tmp_path))
    for name in ("states", "offcpu"):
        (command,) = section(root, name).iter("pre")
        assert text_of(command) == (
            "hotplug-timer run smt=off smt=on --variant 'stock; reboot' --iterations 5"
            " --output 'stock; reboot-traced.jsonl' --trace states --trace offcpu"
        )


def test_states_take_what_the_clock_says_and_may_run_in_one_variant_only() -> None:
    def spent(times: int, clock: int) -> SpentInState:
        """As of CPUs that were in it together: their own times add up to more than it took."""
        return SpentInState(times, times * clock, clock, times * clock, clock=clock)

    stock = states.Times("stock", 1, {(1, "f"): spent(2, 10**9), (2, "g"): spent(1, 5)})
    patched = states.Times("patched", 2, {(1, "f"): spent(5, 10**9)})
    both = [stock, patched]
    assert page_table("", states.columns(both), states.longest(both, states.LISTED)).rows == [
        ["1", "f", "1.000000", "2", "1.000000", "0.500000", "2.5", "1.000000"],
        ["2", "g", "0.000000", "1", "0.000000", "-", "-", "-"],
    ]
    assert states.drawn([stock, patched]) == [(1, "f")]
    assert "f: stock 1.000000, patched 0.500000" in states.describe([stock, patched])
    svg = states.draw([patched, stock], ("stock", "patched"), "title", False, "k")
    assert "0.500" in svg


def test_an_empty_trace_of_states_is_drawn_as_such() -> None:
    svg = states.draw([states.Times("stock", 1, {})], ("stock",), "title", False, "k")
    assert 'role="img"' in svg


def test_an_icicle_in_a_page_has_its_largest_boxes_only() -> None:
    folded = {("root", f"f{at}", f"g{at}"): 1 for at in range(1200)} | {("root", "large"): 300}
    svg = to_inline(folded, "title", "calls", "k")
    assert svg.count("<rect") == INLINE_BOXES < 2 * 1200
    assert ">root: " in svg
    assert ">large: " in svg
    assert svg.count(">f") >= svg.count(">g"), "no box without that which called it"
