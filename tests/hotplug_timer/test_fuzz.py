"""Whatever is in a file or a kernel's text: an answer or one clear refusal, and nothing raw on a terminal.

Runs for a moment with the other tests; for hours with tests/fuzz.py, which takes what begins with test_any.
"""

import gzip
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hotplug_common.debian import parse_indextargets
from hotplug_common.kernel import config, series
from hotplug_common.tables import print_tables
from hotplug_host import cpulist, hostinfo, results
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable
from hotplug_host.timing import bulktrace, counters, cycle
from hotplug_host.timing.eventtrace import parse_losses
from hotplug_host.timing.hooks import parse_hook
from hotplug_host.timing.tracing import MODES
from hotplug_timer.compare import text as compare_text
from hotplug_timer.compare.comparison import compare
from hotplug_timer.notices import print_lines
from hotplug_timer.reader import read_files
from hotplug_timer.report.page import render_page
from hotplug_timer.trace.command import analyse
from hotplug_timer.trace.flame import to_folded, to_svg
from tests import GOLDEN
from tests.samples.reportpages import NO_TRACES
from tests.samples.resultfiles import STOCK_COUNTS, records

TRACES = GOLDEN / "hotplug_timer/trace"
STYLES = ("table", "markdown", "csv", "json", "junit")
#: What no output may hold: control characters but the line end, and what turns the reading direction.
RAW = re.compile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J", "</script><script>alert(1)</script>", "$(reboot)`reboot`;reboot #",
    "[red]x[/blue]", "a|b\nc", "\u202eevil", "\ud800", "\x00", "]]>", "=cmd|' /C calc'!A0", ":smile:",
)  # fmt: skip
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), min_size=1, max_size=20))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
in_one_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)


def whole() -> list[dict[str, Any]]:
    return [
        *records("r1", "stock", [2.0, 2.1, 2.2, 2.3, 2.4, 2.5], [1.0], counts=dict(STOCK_COUNTS)),
        *records("r2", "patched", [1.0, 1.1, 1.2, 1.3, 9.0], [0.5], minute=1),
    ]


def paths_of(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a JSON value's parts are."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(path for key, part in inside for path in paths_of(part, (*above, key)))]


PATHS = paths_of(whole())[1:]


def outcome_of(path: Path) -> str:
    """Read, compare and print in every style; what is wrong about it, "refused", or "fine"."""
    try:
        data = read_files([path])
        comparison = compare(data, data.runs[0].variant, force=True)
    except ToolError as error:
        assert error.code == ExitCode.INPUT
        return "refused"
    for style in STYLES:
        stream = io.StringIO()
        print_tables(compare_text.sheet(comparison), style, stream)
        assert not RAW.search(stream.getvalue()), style
    stream = io.StringIO()
    compare_text.print_notices(comparison, stream)
    assert not RAW.search(stream.getvalue())
    return "fine"


@given(st.lists(st.tuples(st.sampled_from(PATHS), JSON), min_size=1, max_size=3))
@example([((1, "seconds"), 10**400)])
@example([((1, "seconds"), 1e-320)])
@example([((0, "settings", "settle_s"), 10**400)])
@example([((0, "schema"), "hotplug-timer/\u00b2")])
@in_one_folder
def test_any_value_anywhere(tmp_path: Path, changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    lines: Any = whole()
    for where, value in changes:
        part = lines
        for key in where[:-1]:
            part = part[key] if isinstance(part, (dict, list)) and _has(part, key) else None
        if isinstance(part, (dict, list)) and _has(part, where[-1]):
            part[where[-1]] = value
    path = tmp_path / "out"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome_of(path)


def _has(part: Any, key: Any) -> bool:
    return key in part if isinstance(part, dict) else isinstance(key, int) and key < len(part)


@given(st.integers(0, 9000), st.integers(0, 40), st.binary(max_size=12))
@in_one_folder
def test_any_bytes_anywhere(tmp_path: Path, at: int, gone: int, instead: bytes) -> None:
    data = "".join(json.dumps(line) + "\n" for line in whole()).encode()
    path = tmp_path / "out"
    path.write_bytes(data[:at] + instead + data[at + gone :])
    outcome_of(path)


@given(TEXTS, TEXTS, TEXTS)
@in_one_folder
def test_any_text_for_variant_host_and_error(tmp_path: Path, variant: str, host: str, error: str) -> None:
    lines = records("r1", variant, [2.0, 2.1], hostname=host, cmdline=host, kernel_release=host)
    lines += records("r2", "stock" + variant, [1.0, 1.1], minute=1, hostname=host + "2")
    lines[1] |= {"status": "failed", "error": error}
    lines[1]["detail"]["path"] = None
    path = tmp_path / "out"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert outcome_of(path) == "fine"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_a_report(tmp_path: Path, text: str) -> None:
    lines = records("r1", text, [2.0, 2.1], hostname=text, cmdline=text, kernel_release=text, cpu_model=text)
    lines[0]["rcu"] = {text: text}
    lines[1] |= {"status": "failed", "error": text}
    lines[1]["detail"]["path"] = None
    path = tmp_path / "out"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = read_files([path])
    page = render_page(data, compare(data, "stock"), NO_TRACES, text, "{}")
    assert not RAW.search(page)
    assert "<script" not in page
    page.encode()


def _trace_lines() -> list[bytes]:
    texts = [path.read_bytes() for path in sorted(TRACES.glob("*.txt"))]
    return [line for text in texts for line in text.splitlines(keepends=True)] + [
        b"cpuhp/3;kthread;smpboot_thread_fn;schedule 5\n",
        b"a;[Missed Kernel Stack] 5\n",
        b"CPU:3 [12 EVENTS DROPPED]\n",
        gzip.compress(b"cpus=1\n"),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from(_trace_lines()), st.integers(0, 80), st.binary(max_size=8)), max_size=40
    ),
    st.sampled_from([None, *MODES]),
    st.booleans(),
)
@in_one_folder
def test_any_trace(
    tmp_path: Path, lines: list[tuple[bytes, int, bytes]], mode: str | None, folded: bool
) -> None:
    """Lines of real traces, one after the other or with bytes put into them."""
    parts = [b"a;f 5\n"] if folded else []
    parts += [line[:at] + instead + line[at + len(instead) :] for line, at, instead in lines]
    path = tmp_path / "trace"
    path.write_bytes(b"".join(parts))
    stream = io.StringIO()
    try:
        analysis = analyse([path], mode, stream)
    except ToolError as error:
        assert error.code == ExitCode.INPUT
        return
    print_lines("note", analysis.notices(), stream)
    for style in ("table", "markdown", "csv", "json"):
        print_tables(analysis.sheet(5), style, stream)
    stream.write(to_folded(analysis.folded()))
    assert not RAW.search(stream.getvalue())
    assert "nan" not in re.sub(">[^<]*<", "", to_svg(analysis.folded(), analysis.title, analysis.unit))
    assert all(weight >= 0 for weight in analysis.folded().values())


@given(TEXTS)
def test_printable_text_is_printable_and_otherwise_itself(text: str) -> None:
    shown = printable(text)
    assert not RAW.search(shown)
    assert "\n" not in shown
    assert printable(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == text


def _previous(tmp_path: Path) -> Callable[[str], object]:
    def read(text: str) -> object:
        path = tmp_path / "previous"
        path.write_text(text, "utf-8", "surrogatepass")
        return results.read_previous(path)

    return read


def name_of(parse: Any) -> str:
    """A parser's name, with its module's where that tells more."""
    if isinstance(parse, partial):
        parse = parse.func
    name: str = parse.__name__.strip("_")
    return name if name != "parse" else f"{parse.__module__.rpartition('.')[2]}.{name}"


KERNEL_TEXT = st.one_of(
    st.text(max_size=60),
    st.text("0123456789,-:/ \n#", max_size=40),
    st.lists(
        st.sampled_from(("synchronize_rcu", "3", "0.1 us", "\n", ":", "p:x/y", "fallback: no ret: 0 "))
    ).map(" ".join),
    JSON.map(
        lambda value: "".join(
            json.dumps(record) + "\n"
            for record in (
                whole()[0],
                {"record": "iteration", "status": "ok", "index": value, "phase": value},
            )
        )
    ),
)


@pytest.mark.parametrize(
    "parse",
    [
        cpulist.parse_cpulist,
        counters.parse_function_stat,
        counters.parse_function_times,
        counters.parse_kprobe_profile,
        counters.parse_filter,
        bulktrace.parse_trace,
        hostinfo.cpu_model,
        cycle.parse_operation,
        parse_losses,
        partial(parse_hook, "--prepare"),
        config.parse,
        series.parse,
        parse_indextargets,
        _previous,
    ],
    ids=name_of,
)
@given(text=KERNEL_TEXT)
@example(text="0-99999999999999")
@example(text="0\t\N{SUPERSCRIPT ONE}")
@in_one_folder
def test_any_text_for_the_other_parsers(tmp_path: Path, parse: Callable[..., Any], text: str) -> None:
    if parse is _previous:
        parse = parse(tmp_path)
    try:
        parse(text)
    except (ToolError, ValueError) as error:
        # A CPU list is refused with ValueError, by contract; whoever asked says where it was.
        assert isinstance(error, ToolError) or parse is cpulist.parse_cpulist
