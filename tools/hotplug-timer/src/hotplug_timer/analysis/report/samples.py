"""Every sample in time order as a picture that follows the page's light or dark colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from hotplug_timer.analysis import drawing
from hotplug_timer.analysis.compare import is_sample
from hotplug_timer.analysis.reader import Run

#: Inches; small enough that the text stays legible when a phone scales the figure to its width.
WIDTH, HEIGHT = 4.5, 2.7
#: Where the slowest sample is this much slower than the fastest, a linear axis hides the fast ones.
LOG_RATIO = 30.0
#: A page with pictures of more dots than this is too large to open, and shows no more.
MAX_DOTS = 3000
#: More dots than this of a variant are small ones.
MAX_LARGE = 200
#: With more blocks than this, their medians and the rules between them would hide the samples.
MAX_RULED = 60
#: How many blocks the description for those who cannot see the picture names.
MAX_DESCRIBED = 8


@dataclass(frozen=True)
class Block:
    """The seconds of one run under one operation, in time order; `first` is the first one's place, from 1."""

    label: str
    first: int
    seconds: NDArray[np.float64]

    @property
    def last(self) -> int:
        """Return the place of the last sample."""
        return self.first + len(self.seconds) - 1

    @property
    def places(self) -> NDArray[np.int64]:
        """Return the place of each sample."""
        return np.arange(self.first, self.last + 1)


def blocks_of(runs: Sequence[Run], operation: str) -> tuple[Block, ...]:
    """Return the runs' samples as blocks in time order; runs without a sample are left out."""
    blocks: list[Block] = []
    first = 1
    for run in runs:
        seconds = run.iterations.seconds(lambda kind: is_sample(kind, operation))
        if len(seconds):
            blocks.append(Block(run.label, first, seconds))
            first += len(seconds)
    return tuple(blocks)


def draw(blocks: Sequence[Block], labels: tuple[str, ...], operation: str, emulated: bool, key: str) -> str:
    """Return the SVG element: a dot per sample, a line at each block's median, a rule between blocks."""
    with mpl.rc_context(drawing.RC):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        variants = _by_label(blocks).values()
        for mine in variants:
            _draw_dots(axes, mine, labels, MAX_DOTS // len(variants))
        if is_ruled(blocks):
            _draw_rules(axes, blocks, labels)
        _style(axes, blocks, emulated)
        title = f"Every sample of {operation}, in time order"
        return drawing.to_inline(figure, key, title, describe(blocks, emulated))


def describe(blocks: Sequence[Block], emulated: bool) -> str:
    """Return the picture in words, for those who cannot see it."""
    parts = [
        f"block {number}, {block.label}: {_spread(block.seconds)}"
        for number, block in enumerate(blocks[:MAX_DESCRIBED], start=1)
    ]
    if len(blocks) > MAX_DESCRIBED:
        parts.append(f"and {len(blocks) - MAX_DESCRIBED} more blocks")
    return f"Seconds{' (emulated)' if emulated else ''} by sample. {'; '.join(parts)}."


def _spread(seconds: NDArray[np.float64]) -> str:
    if len(seconds) == 1:
        return f"1 sample of {seconds[0]:.3f}"
    low, middle, high = seconds.min(), np.median(seconds), seconds.max()
    return f"{len(seconds)} samples from {low:.3f} to {high:.3f}, median {middle:.3f}"


def is_thinned(blocks: Sequence[Block]) -> bool:
    """Whether there are more samples than are drawn."""
    variants = _by_label(blocks).values()
    return any(sum(len(block.seconds) for block in mine) > MAX_DOTS // len(variants) for mine in variants)


def is_ruled(blocks: Sequence[Block]) -> bool:
    """Whether blocks are set off against each other, and their medians drawn."""
    return len(blocks) <= MAX_RULED


def thin(seconds: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the indices of at most so many: the lowest, the middle and the highest of equally long parts.

    All indices where there are not more; three at least.
    """
    if len(seconds) <= most:
        return np.arange(len(seconds))
    parts = np.array_split(np.arange(len(seconds)), max(most // 3, 1))
    kept = [part[np.argsort(seconds[part], kind="stable")[[0, len(part) // 2, -1]]] for part in parts]
    return np.unique(np.concatenate(kept))


def _by_label(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {}
    for block in blocks:
        found.setdefault(block.label, []).append(block)
    return found


def _draw_dots(axes: Axes, blocks: Sequence[Block], labels: tuple[str, ...], most: int) -> None:
    index = drawing.series(labels, blocks[0].label)
    places = np.concatenate([block.places for block in blocks])
    seconds = np.concatenate([block.seconds for block in blocks])
    kept = thin(seconds, most)
    axes.plot(
        places[kept],
        seconds[kept],
        drawing.MARKERS[index],
        color=drawing.SERIES[index],
        markersize=5 if len(kept) <= MAX_LARGE else 2,
        linestyle="none",
    )


def _draw_rules(axes: Axes, blocks: Sequence[Block], labels: tuple[str, ...]) -> None:
    for block in blocks:
        color = drawing.SERIES[drawing.series(labels, block.label)]
        axes.hlines(np.median(block.seconds), block.first - 0.4, block.last + 0.4, color=color, linewidth=1.4)
    for before, after in pairwise(blocks):
        edge = (before.last + after.first) / 2
        axes.axvline(edge, color=drawing.FAINT, linewidth=0.8, linestyle=(0, (3, 3)))


def _style(axes: Axes, blocks: Sequence[Block], emulated: bool) -> None:
    least, most = min(block.seconds.min() for block in blocks), max(block.seconds.max() for block in blocks)
    if most > LOG_RATIO * least:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, most * 1.12)
    axes.set_xlim(0.4, blocks[-1].last + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("sample, in time order", color=drawing.INK)
    axes.set_ylabel("seconds (emulated)" if emulated else "seconds", color=drawing.INK)
    drawing.style_axes(axes, "y")
