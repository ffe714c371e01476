import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from resultfiles import STOCK_COUNTS, records, write

from hotplug_timer.analysis.compare import compare
from hotplug_timer.analysis.plot import _dots, blocks_of
from hotplug_timer.analysis.reader import Dataset, read_files
from hotplug_timer.analysis.report import write_report
from hotplug_timer.errors import ExitCode, ToolError

VOID = {"meta", "link", "br", "img", "hr", "input", "path", "use", "rect"}


class Page(HTMLParser):
    """Collects what the tests look at, and fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: dict[str, str] = {}
        self.labels: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if values.get("download"):
            self.links[str(values["download"])] = str(values["href"])
        if values.get("role") == "img":
            self.labels.append(str(values["aria-label"]))
        self.references += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return read_files(
        [
            write(tmp_path / "a", records("r1", "stock", [2.7, 2.8], [1.0], minute=0, counts=STOCK_COUNTS)),
            write(tmp_path / "b", records("r2", "patched", [0.3, 0.31], [0.1], minute=1)),
            write(tmp_path / "c", records("r3", "stock", [2.75], [1.1], minute=2)),
        ]
    )


def dots(svg: str) -> int:
    """Return how many samples a figure shows: uses of a marker in a variant's colour."""
    return len(re.findall(r'<use [^>]*style="fill: var\(--series-', svg))


def page_of(data: Dataset, directory: Path) -> str:
    report, _ = write_report(data, compare(data, "stock"), "6.12", directory)
    return report.read_text("utf-8")


def test_page_is_whole_and_needs_nothing_else(data: Dataset, tmp_path: Path) -> None:
    text = page_of(data, tmp_path / "new" / "dir")
    page = Page(text)
    assert all(reference.startswith(("data:", "#")) for reference in page.references)
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    assert "http" not in re.sub(r"base64,[^\"]*", "", without_names)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "emulated" in text


def test_every_sample_is_drawn_with_alt_text_and_block_boundaries(data: Dataset, tmp_path: Path) -> None:
    text = page_of(data, tmp_path)
    off, on = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert (dots(off), dots(on)) == (5, 3)
    assert off.count("stroke-dasharray") == 2
    assert "var(--series-0)" in off
    assert "var(--series-1)" in off
    assert "var(--ink)" in off
    assert not re.search(r"#0[1-8]0[1-8]0[1-8]", text)
    assert Page(text).labels[0] == (
        "smt=off, emulated seconds of every sample in time order."
        " block 1, stock: 2 samples from 2.700 to 2.800 s;"
        " block 2, patched: 2 samples from 0.300 to 0.310 s; block 3, stock: 1 samples from 2.750 to 2.750 s."
    )


def test_downloads_hold_the_data(data: Dataset, tmp_path: Path) -> None:
    links = Page(page_of(data, tmp_path)).links
    contents = {name: base64.b64decode(uri.partition("base64,")[2]).decode() for name, uri in links.items()}
    assert contents["results.jsonl"] == data.raw
    assert contents["summary.json"] == (tmp_path / "summary.json").read_text()
    assert json.loads(contents["summary.json"])["base"] == "6.12"
    assert contents["comparison.csv"].startswith("operation,variant,n,")


def test_labels_are_text_and_never_markup(tmp_path: Path) -> None:
    label = '<script>alert("1")</script> $x$ & co'
    data = read_files([write(tmp_path / "a", records("r1", label, [2.0, 2.1], cmdline="<b>"))])
    text = page_of(data, tmp_path)
    Page(text)
    assert "<script" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;" in re.search(r"<svg.*?</svg>", text, re.DOTALL).group()  # type: ignore[union-attr]
    assert "$x$" in text


def test_the_same_results_give_the_same_page(data: Dataset, tmp_path: Path) -> None:
    assert page_of(data, tmp_path / "one") == page_of(data, tmp_path / "two")


def test_a_wide_range_gets_a_logarithmic_axis(tmp_path: Path) -> None:
    runs = [records("r1", "stock", [59.0]), records("r2", "patched", [0.5], minute=1)]
    data = read_files([write(tmp_path / run[0]["run_id"], run) for run in runs])
    axis = re.findall(r">([^<]+)</text>", page_of(data, tmp_path))
    assert any("10" in label for label in axis)
    assert "0" not in axis


def test_a_directory_that_cannot_be_made_is_an_environment_fault(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="cannot write the report to") as caught:
        page_of(data, tmp_path / "file" / "dir")
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_counts_alone_make_a_report(tmp_path: Path) -> None:
    data = read_files([write(tmp_path / "a", records("r1", "stock", [], counts=STOCK_COUNTS))])
    text = page_of(data, tmp_path)
    assert "<svg" not in text
    assert ">29<" in text


def test_of_many_samples_the_extremes_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotplug_timer.analysis.plot.MAX_DOTS", 30)
    seconds = [2.0 + at % 7 / 10 for at in range(200)]
    seconds[77] = 9.0
    data = read_files([write(tmp_path / "a", records("r1", "stock", seconds))])
    text = page_of(data, tmp_path)
    assert 20 < dots(text) <= 30
    assert "the highest of each stretch are drawn" in text
    assert "200 samples from 2.000 to 9.000 s" in text
    highest = max(blocks_of(data.runs, "smt=off")[0].points, key=lambda point: point.seconds)
    assert highest in _dots(blocks_of(data.runs, "smt=off")[0].points)


def test_files_too_large_to_embed_are_left_out_and_that_is_said(data: Dataset, tmp_path: Path) -> None:
    text = page_of(replace(data, raw=None), tmp_path)
    assert "results.jsonl" not in Page(text).links
    assert "too large to be part of this page" in text
    assert "too large" not in page_of(data, tmp_path)
