import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from markupsafe import escape

from hotplug_common.tables import to_csv
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable
from hotplug_timer import cli
from hotplug_timer.compare import text
from hotplug_timer.compare.comparison import compare
from hotplug_timer.reader import Dataset, read_files
from hotplug_timer.report.downloads import Datum, embed
from hotplug_timer.report.page import render_page
from hotplug_timer.report.samples import MAX_DOTS, blocks_of, stretches
from hotplug_timer.report.text import breakable, short_seconds
from tests.samples.reportpages import (
    NO_TRACES,
    classed,
    page_of,
    parse,
    text_of,
    write_full_report,
    write_lines,
)
from tests.samples.resultfiles import STOCK_COUNTS, records, write


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return read_files(
        [
            write(tmp_path / "a", records("r1", "stock", [2.7, 2.8], [1.0], minute=0, counts=STOCK_COUNTS)),
            write(tmp_path / "b", records("r2", "patched", [0.3, 0.31], [0.1], minute=1)),
            write(tmp_path / "c", records("r3", "stock", [2.75], [1.1], minute=2)),
        ]
    )


@pytest.fixture(scope="module")
def full_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with every section."""
    return write_full_report(tmp_path_factory.mktemp("full")).read_text("utf-8")


@pytest.fixture(scope="module")
def full(full_text: str) -> Element:
    return parse(full_text)


def pictures(root: Element) -> list[Element]:
    return list(root.iter("svg"))


def dots(svg: Element) -> int:
    """Return how many samples a picture shows: uses of a marker in a variant's colour."""
    return sum((use.get("fill") or "").startswith("var(--series-") for use in svg.iter("use"))


def saved(root: Element) -> dict[str, str]:
    """Return what each download link saves."""
    links = [link for link in root.iter("a") if link.get("download")]
    return {
        str(link.get("download")): base64.b64decode(str(link.get("href")).partition("base64,")[2]).decode()
        for link in links
    }


# The page as a page


def test_the_page_asks_for_nothing_and_runs_nothing(full_text: str, full: Element) -> None:
    policy = next(meta.get("content") or "" for meta in full.iter("meta") if meta.get("http-equiv"))
    (style,) = full.iter("style")
    digest = base64.b64encode(hashlib.sha256((style.text or "").encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    for element in full.iter():
        assert element.tag not in ("script", "link", "iframe", "object", "base", "form", "image", "img")
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name != "style"
            if name.rpartition("}")[2] in ("src", "href", "data", "srcset"):
                assert value.startswith(("#", "data:"))
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")
    assert "http:" not in full_text
    assert "https:" not in full_text


def test_the_page_has_landmarks_one_title_and_a_way_past_its_head(full: Element) -> None:
    assert full.get("lang") == "en"
    assert [len(list(full.iter(tag))) for tag in ("h1", "header", "main", "footer", "nav")] == [1] * 5
    assert [element.tag for element in next(full.iter("head"))].count("title") == 1
    assert next(meta for meta in full.iter("meta") if meta.get("name") == "viewport") is not None
    body = next(full.iter("body"))
    assert body[0].get("class") == "skip"
    levels = [int(element.tag[1]) for element in full.iter() if re.fullmatch(r"h[1-6]", element.tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_ids_are_unique_and_all_that_refers_to_one_finds_it(full: Element) -> None:
    ids = Counter(element.get("id") for element in full.iter() if element.get("id"))
    assert set(ids.values()) == {1}
    for element in full.iter():
        for name, value in element.attrib.items():
            if name in ("aria-labelledby", "aria-describedby"):
                assert set(value.split()) <= set(ids)
            elif value.startswith("#") and name.rpartition("}")[2] == "href":
                assert value[1:] in ids
            for found in re.findall(r"url\(#([^)]+)\)", value):
                assert found in ids


def test_every_picture_has_a_title_and_a_description_of_its_own(full: Element) -> None:
    found = pictures(full)
    assert len(found) == 7
    for svg in found:
        assert svg.get("role") == "img"
        title, desc = svg[0], svg[1]
        assert (title.tag, desc.tag) == ("title", "desc")
        assert (svg.get("aria-labelledby"), svg.get("aria-describedby")) == (title.get("id"), desc.get("id"))
        assert text_of(title)
        assert len(text_of(desc)) > 40
    assert len({text_of(svg[0]) for svg in found}) == len(found)


def test_every_table_has_a_caption_headings_and_as_many_cells_as_columns(full: Element) -> None:
    found = list(full.iter("table"))
    assert len(found) > 10
    for table in found:
        assert text_of(next(table.iter("caption")))
        columns = list(next(table.iter("thead")).iter("th"))
        assert {cell.get("scope") for cell in columns} == {"col"}
        assert all(text_of(cell) for cell in columns)
        for row in next(table.iter("tbody")):
            assert len(row) == len(columns)
            heads = [cell.tag for cell in row].count("th")
            assert heads >= 1
            assert [cell.tag for cell in row] == ["th"] * heads + ["td"] * (len(row) - heads)
            assert all(cell.get("scope") == "row" for cell in row if cell.tag == "th")


def test_what_scrolls_can_be_reached_and_has_a_name(full: Element) -> None:
    found = classed(full, "scroll")
    assert len(found) > 10
    for element in found:
        assert (element.get("tabindex"), element.get("role")) == ("0", "group")
        assert element.get("aria-label")
    tables = [table for element in found for table in element.iter("table")]
    assert len(tables) == len(list(full.iter("table")))
    assert len({element.get("aria-label") for element in found}) == len(found)


def test_the_sections_are_there_and_in_this_order(full: Element) -> None:
    headings = [text_of(element) for element in full.iter("h2")]
    assert headings == [
        "smt=off",
        "smt=on",
        "Seconds",
        "Every sample",
        "What one transition costs the whole machine",
        "Time per state",
        "Off-CPU time",
        "Function graph",
        "Host, kernels and blocks",
        "Data to save",
    ]


# What it says


def test_the_table_and_the_warnings_are_those_of_compare(tmp_path: Path) -> None:
    stock = [2.0, 2.1, 2.2, 2.3, 2.4, 9.5]
    data = read_files(
        [
            write(tmp_path / "a", records("r1", "stock", stock, hostname="lpar1")),
            write(tmp_path / "b", records("r2", "patched", [1.0, 1.1, 1.2], hostname="lpar2", minute=1)),
        ]
    )
    comparison = compare(data, "stock")
    assert len(comparison.warnings) >= 2
    root = parse(page_of(data, tmp_path))
    shown = [text_of(item) for item in next(iter(classed(root, "mind")))]
    assert shown == [f"warning: {' '.join(text.split())}" for text in comparison.warnings]
    table = next(table for table in root.iter("table") if "Seconds" in text_of(table[0]))
    rows = [[text_of(cell).lstrip("●■ ") for cell in row] for row in next(table.iter("tbody"))]
    assert rows == text.seconds_table(comparison).cells


def test_every_sample_is_drawn_with_words_and_block_boundaries(data: Dataset, tmp_path: Path) -> None:
    root = parse(page_of(data, tmp_path))
    off, on = pictures(root)
    assert (dots(off), dots(on)) == (5, 3)
    dashed = [element for element in off.iter() if element.get("stroke-dasharray")]
    assert len(dashed) == 2
    colours = {value for element in off.iter() for value in element.attrib.values() if "var(" in value}
    assert {"var(--series-0)", "var(--series-1)", "var(--ink)", "var(--faint)"} == colours
    assert text_of(off[1]) == (
        "Seconds (emulated) by sample. block 1, stock: 2 samples from 2.700 to 2.800, median 2.750;"
        " block 2, patched: 2 samples from 0.300 to 0.310, median 0.305; block 3, stock: 1 sample of 2.750."
    )
    table = next(table for table in root.iter("table") if "Samples of smt=off" in text_of(table))
    assert [text_of(row[-1]) for row in next(table.iter("tbody"))] == ["2.700 2.800", "0.300 0.310", "2.750"]


def test_downloads_hold_the_data(data: Dataset, tmp_path: Path) -> None:
    contents = saved(parse(page_of(data, tmp_path)))
    assert contents["results.jsonl"] == data.raw
    assert contents["summary.json"] == (tmp_path / "summary.json").read_text()
    summary = json.loads(contents["summary.json"])
    assert (summary["line"], summary["base"]) == ("6.12", "6.12")
    assert contents["comparison.csv"] == to_csv(text.sheet(compare(data, "stock")))
    (tmp_path / "again.jsonl").write_text(contents["results.jsonl"])
    again = read_files([tmp_path / "again.jsonl"])
    assert compare(again, "stock") == compare(data, "stock")


def test_stacks_of_traces_can_be_saved_under_the_traces_name(full: Element) -> None:
    contents = saved(full)
    assert "stock.smt=off.offcpu.folded" in contents
    assert re.fullmatch(r"(\S.* \d+\n)+", contents["stock.smt=off.offcpu.folded"])


def test_host_kernels_and_commands_are_described(tmp_path: Path) -> None:
    lines = records("r1", "stock", [2.0], cmdline="ro quiet", cpu_model="POWER10", hostname="lpar7")
    lines[0]["settings"]["warmup"] = 2
    lines[0]["detail"]["prepare"] = "systemctl start load"
    text = text_of(parse(page_of(read_files([write(tmp_path / "a", lines)]), tmp_path)))
    for part in ("lpar7", "POWER10", "ro quiet", "rcu_expedited=0", "systemctl start load", "0-15"):
        assert part in text
    assert "16 (2 cores x SMT8)" in text


def test_a_single_variant_has_its_medians_in_front(tmp_path: Path) -> None:
    data = read_files([write(tmp_path / "a", records("r1", "stock", [2.0, 3.0, 2.5], [0.9]))])
    root = parse(page_of(data, tmp_path))
    assert [text_of(element) for element in classed(root, "big")] == ["2.50 s", "0.900 s"]
    assert classed(root, "verdict") == []


def test_no_two_of_many_variants_look_alike(tmp_path: Path) -> None:
    runs = [records(f"r{at}", "stock" if at == 0 else f"v{at}", [1.0], minute=at) for at in range(14)]
    data = read_files([write(tmp_path / run[0]["run_id"], run) for run in runs])
    (legend,) = classed(parse(page_of(data, tmp_path)), "legend")
    marks = [(item[0].get("class"), item[0].text) for item in legend]
    assert len(set(marks)) == len(marks) == 14


def test_counts_alone_make_a_report(tmp_path: Path) -> None:
    data = read_files([write(tmp_path / "a", records("r1", "stock", [], counts=STOCK_COUNTS))])
    root = parse(page_of(data, tmp_path))
    assert pictures(root) == []
    assert any(text_of(cell) == "29" for cell in root.iter("td"))


def test_without_counts_it_says_how_to_get_some(tmp_path: Path) -> None:
    data = read_files([write(tmp_path / "a", records("r1", "stock", [1.0]))])
    assert "--count-iterations" in page_of(data, tmp_path)


def test_the_same_results_give_the_same_page(data: Dataset, tmp_path: Path) -> None:
    assert page_of(data, tmp_path / "one") == page_of(data, tmp_path / "two")


def test_a_wide_range_gets_a_logarithmic_axis(tmp_path: Path) -> None:
    runs = [records("r1", "stock", [59.0]), records("r2", "patched", [0.5], minute=1)]
    data = read_files([write(tmp_path / run[0]["run_id"], run) for run in runs])
    (svg,) = pictures(parse(page_of(data, tmp_path)))
    axis = [text_of(element) for element in svg.iter("text")]
    assert any("10" in label for label in axis)
    assert "0" not in axis


def test_a_directory_that_cannot_be_made_is_an_environment_fault(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="cannot write the report to") as caught:
        page_of(data, tmp_path / "file" / "dir")
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_three_digits_that_count() -> None:
    figures = [2.654, 0.1234567, 123.4, 12345.6, 0.000306, 0.0, 1.0]
    assert [short_seconds(one) for one in figures] == [
        "2.65",
        "0.123",
        "123",
        "12346",
        "0.000306",
        "0",
        "1.00",
    ]


@given(st.text(st.characters(), max_size=80) | st.text("ab_-/<>&", max_size=80))
def test_breaking_long_words_changes_no_text(text: str) -> None:
    whole = str(breakable(text))
    assert whole.replace("<wbr>", "") == str(escape(printable(text)))
    pieces = whole.replace("<wbr>", " ").split()
    assert all(len(unescape(piece)) <= 24 for piece in pieces)


# How much it is


def test_of_many_samples_the_extremes_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotplug_timer.report.samples.MAX_DOTS", 30)
    seconds = [2.0 + at % 7 / 10 for at in range(200)]
    seconds[77] = 9.0
    data = read_files([write(tmp_path / "a", records("r1", "stock", seconds))])
    root = parse(page_of(data, tmp_path))
    (svg,) = pictures(root)
    assert dots(svg) == 10
    lines = [path for path in svg.iter("path") if path.get("stroke") == "var(--series-0)"]
    assert len(lines) >= 10
    assert "too many to draw them all" in text_of(root)
    assert "200 samples from 2.000 to 9.000" in text_of(svg[1])
    table = next(table for table in root.iter("table") if "Samples of" in text_of(table))
    assert text_of(next(table.iter("tbody"))).endswith("and 160 more")


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=400), st.integers(1, 60))
def test_stretches_keep_the_extremes_the_order_and_the_bound(seconds: list[float], most: int) -> None:
    values = np.array(seconds)
    kept = stretches(values, most)
    assert kept.shape == (min(most, len(values)), 3)
    low, middle, high = values[kept].T
    assert (low.min(), high.max()) == (values.min(), values.max())
    assert (low <= middle).all()
    assert (middle <= high).all()
    # A stretch is over when the next one begins.
    assert (kept.max(axis=1)[:-1] < kept.min(axis=1)[1:]).all()


def test_many_blocks_are_shown_without_rules_and_listed_up_to_a_bound(tmp_path: Path) -> None:
    runs = [records(f"r{at}", "stock", [2.0, 2.1], minute=at % 60) for at in range(230)]
    data = read_files([write(tmp_path / "all", [record for run in runs for record in run])])
    assert len(blocks_of(data.runs, "smt=off")) == 230
    root = parse(page_of(data, tmp_path))
    (svg,) = pictures(root)
    assert dots(svg) == 460 <= MAX_DOTS
    assert not [element for element in svg.iter() if element.get("stroke-dasharray")]
    assert "too many for their medians" in text_of(root)
    assert text_of(root).count("And 30 more.") == 2
    assert max(len(list(table.iter("tr"))) for table in root.iter("table")) == 201


def test_files_too_large_to_embed_are_left_out_and_that_is_said(data: Dataset, tmp_path: Path) -> None:
    root = parse(page_of(replace(data, raw=None), tmp_path))
    assert set(saved(root)) == {"comparison.csv", "summary.json"}
    assert "Too large to be part of this page: results.jsonl" in text_of(root)
    assert "Too large" not in page_of(data, tmp_path)


def test_embedding_has_a_budget_for_all_files_together() -> None:
    data = [
        Datum(name, "text/plain", text, "", "")
        for name, text in [("a", "x" * 6), ("b", "y" * 6), ("c", "zz")]
    ]
    embedded, left_out = embed(data, budget=8)
    assert [item.name for item in embedded] == ["a", "c"]
    assert [item.name for item in left_out] == ["b"]


# What it is given is text

PLAIN_SHAPES: dict[Path, list[object]] = {}
HOSTILE = " ".join(
    [
        "</title><script>alert(1)</script>",
        '" onmouseover="alert(1)',
        "' autofocus onfocus=alert(1) x='",
        "<svg onload=alert(1)>",
        "]]></style><style>*{display:none}",
        "--><!--",
        "{{ 7 * 7 }}{% for %}",
        "&lt;b&gt;&#x3c;",
        "javascript:alert(1)",
        "$x$ \\frac{1}{2}",
        "\x1b[2J\x00\u202e\ud800",
    ]
)


def hostile_page(folder: Path, text: str) -> str:
    """Return a report of runs with a text wherever a file may have any."""
    host = dict.fromkeys(
        ("hostname", "cmdline", "kernel_release", "kernel_version", "cpu_model", "boot_id"), text
    )
    lines = records("r1", "stock" + text, [2.0, 2.1], **host) + records("r2", text, [1.0], minute=1, **host)
    for record in lines:
        if record["record"] == "run":
            record["rcu"] = {text: text}
            record["detail"] |= {"prepare": text, "cleanup": text}
    lines[1] |= {"status": "failed", "error": text}
    lines[1]["detail"]["path"] = None
    data = read_files([write_lines(folder / "out", lines)])
    return render_page(data, compare(data, "stock" + text), NO_TRACES, text, "{}")


def shape(element: Element) -> list[object]:
    """Return a page's elements and the names of their attributes.

    Without the insides of pictures, and without the places where a long word may be broken.
    """
    inner = [] if element.tag == "svg" else [shape(child) for child in element if child.tag != "wbr"]
    return [element.tag, sorted(element.attrib), inner]


@given(st.text(st.characters(), min_size=1, max_size=30))
@example(HOSTILE)
@settings(
    max_examples=10,
    deadline=None,
    # To explain a failure each line would be traced, which takes minutes with matplotlib.
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.slow
def test_no_text_of_a_file_changes_the_structure(tmp_path: Path, text: str) -> None:
    if tmp_path not in PLAIN_SHAPES:
        PLAIN_SHAPES[tmp_path] = shape(parse(hostile_page(tmp_path, "plain")))
    assert shape(parse(hostile_page(tmp_path, text))) == PLAIN_SHAPES[tmp_path]


def test_variants_are_shown_as_they_are(tmp_path: Path) -> None:
    variant = '<script>alert("1")</script> $x$ & co'
    data = read_files([write(tmp_path / "a", records("r1", variant, [2.0, 2.1], cmdline="<b>"))])
    text = page_of(data, tmp_path)
    root = parse(text)
    assert "<script" not in text
    assert "<b>" not in text
    assert variant in text_of(root)
    assert variant in text_of(pictures(root)[0])


def test_the_command_says_where_the_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "a.jsonl", records("r1", "stock", [2.0]))
    assert cli.main(["report", str(file), "--output-dir", str(tmp_path / "out"), "--line", "6.12"]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / "out" / name) for name in ("report.html", "summary.json")
    ]
