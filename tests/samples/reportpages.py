"""Reports written for tests, and a strict reading of them as HTML."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree.ElementTree import Element

import html5lib

from hotplug_timer.compare.comparison import compare
from hotplug_timer.reader import Dataset, read_files
from hotplug_timer.report.page import write_report
from hotplug_timer.report.traces import Traces, read_traces
from tests import GOLDEN
from tests.samples.resultfiles import STOCK_COUNTS, Record, iteration, records, write

TRACES = GOLDEN / "hotplug_timer" / "trace"
NO_TRACES = Traces((), ())


def parse(text: str) -> Element:
    """Return the page's html element; fails where a browser would have to mend the page."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(text)
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    return root


def text_of(element: Element) -> str:
    """Return an element's text with single spaces."""
    return " ".join("".join(element.itertext()).split())


def classed(root: Element, name: str) -> list[Element]:
    """Return the elements of a class."""
    return [element for element in root.iter() if name in (element.get("class") or "").split()]


def page_of(data: Dataset, directory: Path, traces: Traces = NO_TRACES) -> str:
    """Write a report of some runs against "stock"; return the page."""
    report, _ = write_report(data, compare(data, "stock"), traces, "6.12", directory)
    return report.read_text("utf-8")


def traced(run_id: str, index: int, mode: str, file: str, **changes: object) -> Record:
    """Return a traced iteration of smt=off."""
    trace = {"mode": mode, "file": file, "seconds": 1.2, "lost_events": 0}
    return iteration(
        run_id,
        index,
        "smt=off",
        None,
        **{"phase": "traced", "counts": None, "counter": None, "trace": trace, **changes},
    )


def traced_run(folder: Path, variant: str, *modes: str, minute: int = 0, seconds: float = 2.7) -> Path:
    """Write a run of five samples an operation, with real traces beside it as trace-cmd printed them."""
    samples = [seconds + at / 10 for at in range(5)]
    lines = records(
        f"run-{variant}", variant, samples, [one / 3 for one in samples], minute=minute, counts=STOCK_COUNTS
    )
    for index, mode in enumerate(modes, start=1):
        lines.insert(-1, traced(f"run-{variant}", index, mode, f"{variant}.smt=off.{mode}.dat"))
        shutil.copyfile(TRACES / f"ppc64le-{mode}.txt", folder / f"{variant}.smt=off.{mode}.txt")
    return write(folder / f"{variant}.jsonl", lines)


def write_full_report(folder: Path) -> Path:
    """Write a report that has every section, of two variants; return the page's path."""
    modes = ("states", "offcpu", "counts", "graph")
    files = [
        traced_run(folder, "stock", *modes),
        traced_run(folder, "patched", "states", "offcpu", minute=1, seconds=0.3),
    ]
    data = read_files(files)
    page_of(data, folder / "report", read_traces(data.runs, []))
    return folder / "report" / "report.html"


def write_lines(path: Path, lines: list[Record]) -> Path:
    """Write records whose texts may be anything."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
