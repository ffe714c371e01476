"""Folded stacks as text, and as an icicle picture: one SVG file that needs nothing else.

No library draws these: Brendan Gregg's flamegraph.pl does, and reads the same folded stacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from hotplug_timer.analysis.trace.model import Folded

WIDTH, ROW, TOP, PAD = 1200.0, 18, 52, 10
#: Narrower boxes are not drawn; ones narrower than a few letters have no text.
MIN_WIDTH, MIN_TEXT = 0.4, 24.0
#: Of the 11-pixel monospaced font.
CHARACTER = 6.7
#: How many stacks the description for those who cannot see the picture names.
DESCRIBED = 5


@dataclass
class _Box:
    value: int = 0
    inner: dict[str, _Box] = field(default_factory=dict)


def to_folded(folded: Folded) -> str:
    """Return one line a stack, as flamegraph.pl reads it: frames between semicolons, a space, the weight."""
    lines = (f"{';'.join(map(_frame, stack))} {weight}" for stack, weight in folded.items() if weight > 0)
    return "".join(f"{line}\n" for line in sorted(lines))


def to_svg(folded: Folded, title: str, unit: str) -> str:
    """Return an icicle: the outermost frames on top, widths by weight, what they called below them.

    Each box has its whole name and share as a tooltip; the picture has a title and a description.
    """
    root = _tree(folded)
    boxes = list(_boxes(root, 0, PAD, WIDTH - 2 * PAD))
    height = TOP + ROW * (1 + max((depth for depth, *_ in boxes), default=0)) + PAD
    shapes = "".join(_shape(*box, whole=root.value or 1, unit=unit) for box in boxes)
    empty = "" if boxes else f'<text x="{PAD}" y="{TOP}">nothing was recorded</text>\n'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}" role="img"'
        ' aria-labelledby="title desc" font-family="monospace" font-size="11" fill="#111">\n'
        f'<title id="title">{escape(title)}</title>\n'
        f'<desc id="desc">{escape(_description(folded, root.value, unit))}</desc>\n'
        f'<rect width="{WIDTH:g}" height="{height}" fill="#fff"/>\n'
        f'<text x="{PAD}" y="22" font-size="15" font-family="sans-serif">{escape(title)}</text>\n'
        f'<text x="{PAD}" y="40" font-family="sans-serif">all: {root.value} {escape(unit)}; callers are above'
        f" what they called; order from left to right means nothing</text>\n{empty}{shapes}</svg>\n"
    )


def _tree(folded: Folded) -> _Box:
    root = _Box()
    for stack, weight in folded.items():
        if weight <= 0:
            continue
        root.value += weight
        box = root
        for frame in stack:
            box = box.inner.setdefault(frame, _Box())
            box.value += weight
    return root


def _boxes(root: _Box, depth: int, x: float, width: float) -> Iterator[tuple[int, float, float, str, int]]:
    """Yield depth, x, width, name and weight of each box wide enough to be seen; no recursion."""
    waiting = [(root, depth, x, width)]
    while waiting:
        parent, level, left, room = waiting.pop()
        for name, box in sorted(parent.inner.items()):
            wide = room * box.value / parent.value
            if wide >= MIN_WIDTH:
                yield level, left, wide, name, box.value
                waiting.append((box, level + 1, left, wide))
            left += wide


def _shape(depth: int, x: float, width: float, name: str, value: int, *, whole: int, unit: str) -> str:
    y = TOP + depth * ROW
    text = ""
    if width >= MIN_TEXT:
        room = int((width - 6) / CHARACTER)
        shown = name if len(name) <= room else f"{name[: max(room - 2, 1)]}.."
        text = f'<text x="{x + 3:.1f}" y="{y + 12.5:g}">{escape(shown)}</text>'
    share = f"{escape(name)}: {value} {escape(unit)}, {100 * value / whole:.1f}%"
    return (
        f'<g><title>{share}</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.3, 0.1):.1f}"'
        f' height="{ROW - 1}" fill="{_colour(name)}"/>{text}</g>\n'
    )


def _colour(name: str) -> str:
    # Light, so that dark text has a contrast of 7 to 1 or more on each; the same for a name in every picture.
    code = zlib.crc32(name.encode())
    return f"hsl({code % 360},{55 + code // 360 % 25}%,82%)"


def _description(folded: Folded, whole: int, unit: str) -> str:
    largest = sorted(folded.items(), key=lambda item: -item[1])[:DESCRIBED]
    parts = [
        f"{' < '.join(reversed(stack))}: {100 * weight / whole:.1f}%"
        for stack, weight in largest
        if weight > 0
    ]
    return f"An icicle of {len(folded)} stacks, {whole} {unit} in all. The largest: " + (
        "; ".join(parts) or "none"
    )


def _frame(name: str) -> str:
    # A semicolon would end the frame, and a task's name can have one.
    return name.replace(";", ":") or "?"
