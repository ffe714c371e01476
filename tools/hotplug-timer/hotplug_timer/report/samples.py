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

from hotplug_timer import drawing
from hotplug_timer.compare.comparison import is_sample
from hotplug_timer.reader import Run

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

    variant: str
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
            blocks.append(Block(run.variant, first, seconds))
            first += len(seconds)
    return tuple(blocks)


def draw(blocks: Sequence[Block], variants: tuple[str, ...], operation: str, emulated: bool, key: str) -> str:
    """Return the SVG element: samples, a line at each block's median, a rule between blocks."""
    with mpl.rc_context(drawing.RC):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        groups = _by_variant(blocks).values()
        for mine in groups:
            _draw_samples(axes, mine, variants, _share(len(groups)))
        if is_ruled(blocks):
            _draw_rules(axes, blocks, variants)
        _style(axes, blocks, emulated)
        title = f"Every sample of {operation}, in time order"
        return drawing.to_inline(figure, key, title, describe(blocks, emulated))


def describe(blocks: Sequence[Block], emulated: bool) -> str:
    """Return the picture in words, for those who cannot see it."""
    parts = [
        f"block {number}, {block.variant}: {_spread(block.seconds)}"
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
    groups = _by_variant(blocks).values()
    return any(sum(len(block.seconds) for block in mine) > _share(len(groups)) for mine in groups)


def is_ruled(blocks: Sequence[Block]) -> bool:
    """Whether blocks are set off against each other, and their medians drawn."""
    return len(blocks) <= MAX_RULED


def stretches(seconds: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the indices of the lowest, the middle and the highest sample of equally long stretches.

    There are MOST stretches, or one for each sample where there are fewer; the shape is (stretches, 3).
    """
    parts = np.array_split(np.arange(len(seconds)), min(most, len(seconds)))
    kept = [part[np.argsort(seconds[part], kind="stable")[[0, len(part) // 2, -1]]] for part in parts]
    return np.array(kept)


def _share(variants: int) -> int:
    """Return how many samples of a variant are drawn one by one, in a picture of so many variants."""
    return max(MAX_DOTS // variants, 3)


def _by_variant(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {}
    for block in blocks:
        found.setdefault(block.variant, []).append(block)
    return found


def _draw_samples(axes: Axes, blocks: Sequence[Block], variants: tuple[str, ...], most: int) -> None:
    """Draw the samples of a variant: a dot each, or a line and a dot for each stretch of them."""
    variant = blocks[0].variant
    color, sign = drawing.SERIES[drawing.series(variants, variant)], drawing.marker(variants.index(variant))
    places = np.concatenate([block.places for block in blocks])
    seconds = np.concatenate([block.seconds for block in blocks])
    size = 5.0
    if len(seconds) > most:
        low, middle, high = stretches(seconds, most // 3).T
        axes.vlines(places[middle], seconds[low], seconds[high], color=color, linewidth=0.6)
        places, seconds = places[middle], seconds[middle]
    if len(seconds) > MAX_LARGE:
        size = 1.5
    axes.plot(places, seconds, sign, color=color, markersize=size, linestyle="none")


def _draw_rules(axes: Axes, blocks: Sequence[Block], variants: tuple[str, ...]) -> None:
    for block in blocks:
        # Where dots run into each other, a line of their colour would be lost.
        color = drawing.SERIES[drawing.series(variants, block.variant)]
        color = color if len(block.seconds) <= MAX_LARGE else drawing.INK
        ends = (block.first - 0.4, block.last + 0.4)
        axes.hlines(np.median(block.seconds), *ends, color=color, linewidth=1.4, zorder=3)
    for before, after in pairwise(blocks):
        edge = (before.last + after.first) / 2
        axes.axvline(edge, color=drawing.FAINT, linewidth=0.8, linestyle=(0, (3, 3)))


def _style(axes: Axes, blocks: Sequence[Block], emulated: bool) -> None:
    least, most = min(block.seconds.min() for block in blocks), max(block.seconds.max() for block in blocks)
    if most > LOG_RATIO * least:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, most * 1.12)
    room = 0.5 + 0.015 * blocks[-1].last
    axes.set_xlim(1 - room, blocks[-1].last + room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("sample, in time order", color=drawing.INK)
    axes.set_ylabel("seconds (emulated)" if emulated else "seconds", color=drawing.INK)
    drawing.style_axes(axes, "y")
