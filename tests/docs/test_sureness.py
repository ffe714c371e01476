"""The picture of boots and the table of smallest effects."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest

from docpages import sureness
from docpages.paths import DEMO
from hotplug_host.errors import ToolError
from hotplug_timer.compare.comparison import compare
from hotplug_timer.reader import read_files


def test_more_boots_find_less_and_more_spread_finds_only_more() -> None:
    cells = [
        [float(cell.strip(" %")) for cell in line.split("|")[2:-1]]
        for line in sureness.table().splitlines()[2:]
    ]
    assert len(cells) == len(sureness.SPREADS_PERCENT)
    assert all(row == sorted(row, reverse=True) for row in cells)
    assert all(list(column) == sorted(column) for column in zip(*cells, strict=True))
    # 5% of spread and 4 boots: sqrt(21 / 2) times 0.05 is 0.162, a decrease of 15%.
    assert cells[2][2] == 15.0


def test_the_picture_has_each_iteration_and_a_bar_for_each_boot() -> None:
    root = ElementTree.fromstring(sureness.picture())  # noqa: S314 - our own
    rows = [
        row
        for row in compare(read_files(sorted(DEMO.glob("*.jsonl"))), "stock").rows
        if row.operation == sureness.OPERATION
    ]
    tags = [element.tag.rpartition("}")[2] for element in root]
    assert tags.count("circle") == sum(row.summary.n for row in rows)
    bars = [element for element in root if element.get("stroke-width") == "3"]
    assert len(bars) == sum(row.spread.boots for row in rows)
    texts = ["".join(element.itertext()) for element in root]
    for row, number in itertools.product(rows, (1, 2)):
        assert f"boot {number}" in texts
        assert any(text.startswith(f"{row.variant}: ") for text in texts)


def test_a_demo_without_the_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sureness, "OPERATION", "smt=4")
    with pytest.raises(ToolError, match="no smt=4 in"):
        sureness.picture()
