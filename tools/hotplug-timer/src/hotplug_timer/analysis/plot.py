"""Every sample in time order as an inline SVG that follows the page's light or dark colours."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hotplug_timer.analysis.compare import is_sample
from hotplug_timer.analysis.reader import Run
from hotplug_timer.target.text import printable

mpl.use("svg")

#: Inches; small enough that the text stays legible when a phone scales the figure to its width.
WIDTH, HEIGHT = 5.0, 3.1
MARKERS = "osD^vP"
#: Matplotlib wants colours, the page wants CSS variables: these stand for them and get replaced.
INK = "#010101"
FAINT = "#020202"
PLACEHOLDERS = ("#030303", "#040404", "#050505", "#060606", "#070707", "#080808")
#: Text stays text; ids are the same every time; a "$" in a label is a "$".
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hotplug-timer",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.parse_math": False,
}
#: Where the slowest sample is this much slower than the fastest, a linear axis hides the fast ones.
LOG_RATIO = 30.0
#: A page with more dots of a block than this is too large to open, and shows no more.
MAX_DOTS = 3000


@dataclass(frozen=True)
class Point:
    """One sample: its place in time order and its seconds."""

    position: int
    seconds: float


@dataclass(frozen=True)
class Block:
    """The samples of one run under one operation: one boot of one variant."""

    label: str
    points: tuple[Point, ...]


def blocks_of(runs: Sequence[Run], operation: str) -> tuple[Block, ...]:
    """Return the runs' samples as blocks in time order; runs without a sample are left out."""
    blocks: list[Block] = []
    position = 0
    for run in runs:
        points = []
        for seconds in run.iterations.seconds(lambda kind: is_sample(kind, operation)):
            position += 1
            points.append(Point(position, float(seconds)))
        if points:
            blocks.append(Block(run.label, tuple(points)))
    return tuple(blocks)


def series_variable(labels: Sequence[str], label: str) -> str:
    """Return the CSS variable that holds a variant's colour."""
    return f"--series-{labels.index(label) % len(PLACEHOLDERS)}"


def draw(blocks: Sequence[Block], labels: Sequence[str], emulated: bool) -> str:
    """Return the SVG element: a dot per sample, a line at each block's median, a rule between blocks."""
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        for block in blocks:
            _draw_block(axes, block, labels)
        for before, after in pairwise(blocks):
            edge = (before.points[-1].position + after.points[0].position) / 2
            axes.axvline(edge, color=FAINT, linewidth=0.8, linestyle=(0, (3, 3)))
        _style(axes, blocks, emulated)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue())


def describe(blocks: Sequence[Block], operation: str, emulated: bool) -> str:
    """Return the figure in words, for those who cannot see it."""
    parts = []
    for number, block in enumerate(blocks, start=1):
        seconds = [point.seconds for point in block.points]
        parts.append(
            f"block {number}, {block.label}: {len(seconds)} samples from {min(seconds):.3f}"
            f" to {max(seconds):.3f} s"
        )
    kind = "emulated seconds" if emulated else "seconds"
    return f"{operation}, {kind} of every sample in time order. " + "; ".join(parts) + "."


def is_thinned(blocks: Sequence[Block]) -> bool:
    """Whether some block has more samples than are drawn."""
    return any(len(block.points) > MAX_DOTS for block in blocks)


def _dots(points: Sequence[Point]) -> Sequence[Point]:
    """Return the points, or of each of equally long parts the lowest, the middle and the highest."""
    if len(points) <= MAX_DOTS:
        return points
    length = -(-3 * len(points) // MAX_DOTS)
    parts = (
        sorted(points[at : at + length], key=lambda point: point.seconds)
        for at in range(0, len(points), length)
    )
    return [point for part in parts for point in (part[0], part[len(part) // 2], part[-1])]


def _draw_block(axes: Axes, block: Block, labels: Sequence[str]) -> None:
    index = labels.index(block.label)
    color = PLACEHOLDERS[index % len(PLACEHOLDERS)]
    xs = [point.position for point in block.points]
    ys = [point.seconds for point in block.points]
    dots = _dots(block.points)
    places, heights = [point.position for point in dots], [point.seconds for point in dots]
    axes.plot(places, heights, MARKERS[index % len(MARKERS)], color=color, markersize=5, linestyle="none")
    axes.hlines(median(ys), xs[0] - 0.4, xs[-1] + 0.4, color=color, linewidth=1.4)
    axes.annotate(
        printable(block.label),
        ((xs[0] + xs[-1]) / 2, 1.02),
        xycoords=("data", "axes fraction"),
        ha="center",
        va="bottom",
        color=color,
        fontweight="bold",
    )


def _style(axes: Axes, blocks: Sequence[Block], emulated: bool) -> None:
    seconds = [point.seconds for block in blocks for point in block.points]
    if max(seconds) > LOG_RATIO * min(seconds):
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, max(seconds) * 1.12)
    axes.set_xlim(0.4, len(seconds) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.set_xlabel("sample, in time order", color=INK)
    axes.set_ylabel("seconds (emulated)" if emulated else "seconds", color=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=INK, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)


def _inline(svg: str) -> str:
    """Return the bare element, sized by the page, with CSS variables for colours and no XML ids to clash."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", element, count=1)
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = element.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
    replacements = {INK: "var(--ink)", FAINT: "var(--faint)"}
    replacements.update({color: f"var(--series-{at})" for at, color in enumerate(PLACEHOLDERS)})
    for color, variable in replacements.items():
        element = element.replace(color, variable)
    return element
