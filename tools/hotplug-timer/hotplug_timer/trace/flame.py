"""Folded stacks as text, and as an icicle picture: an SVG file that needs nothing else, or part of a page.

No library draws these: Brendan Gregg's flamegraph.pl does, and reads the same folded stacks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from hotplug_host.text import printable
from hotplug_timer.trace.model import Folded

WIDTH, ROW, TOP, PAD = 1200.0, 18, 52, 10
#: Narrower boxes are not drawn; ones narrower than a few letters have no text.
MIN_WIDTH, MIN_TEXT = 0.4, 24.0
#: A page is narrower, and opens on a phone.
INLINE_WIDTH, INLINE_BOXES = 960.0, 2000
#: Of the 11-pixel monospaced font.
CHARACTER = 6.7
#: How many stacks the description for those who cannot see the picture names.
DESCRIBED = 5


@dataclass
class _Box:
    value: int = 0
    inner: dict[str, _Box] = field(default_factory=dict)


@dataclass(frozen=True)
class _Drawn:
    """A box with its place: how deep it is (0 is on top), from where on, and how wide."""

    depth: int
    x: float
    width: float
    name: str
    value: int


def to_folded(folded: Folded) -> str:
    """Return one line a stack, as flamegraph.pl reads it: frames between semicolons, a space, the weight."""
    lines = (f"{';'.join(map(_frame, stack))} {weight}" for stack, weight in folded.items() if weight > 0)
    return "".join(f"{line}\n" for line in sorted(lines))


def to_svg(folded: Folded, title: str, unit: str) -> str:
    """Return an icicle as a file of its own: the outermost frames on top, what they called below them.

    Each box is as wide as its weight and has its whole name and share as a tooltip; the picture has a
    title and a description.
    """
    boxes = list(_boxes(folded, WIDTH))
    height = _height(boxes, TOP)
    empty = "" if boxes else f'<text x="{PAD}" y="{TOP}">nothing was recorded</text>\n'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}"'
        f" {_words('', folded, title, unit)}"
        f'<rect width="{WIDTH:g}" height="{height}" fill="#fff"/>\n'
        f'<text x="{PAD}" y="22" font-size="15" font-family="sans-serif">{escape(title)}</text>\n'
        f'<text x="{PAD}" y="40" font-family="sans-serif">all: {_whole(folded)} {escape(unit)}; callers are'
        f" above what they called; order from left to right means nothing</text>\n"
        f"{empty}{_shapes(boxes, TOP, _whole(folded), unit)}</svg>\n"
    )


def to_inline(folded: Folded, title: str, unit: str, key: str) -> str:
    """Return an icicle to put into HTML, narrower and with its largest boxes only.

    KEY is this picture's alone: ids begin with it.
    """
    boxes = sorted(_boxes(folded, INLINE_WIDTH), key=lambda box: (-box.width, box.depth))[:INLINE_BOXES]
    return (
        f'<svg viewBox="0 0 {INLINE_WIDTH:g} {_height(boxes, 0)}" {_words(f"{key}-", folded, title, unit)}'
        f"{_shapes(boxes, 0, _whole(folded), unit)}</svg>"
    )


def _words(prefix: str, folded: Folded, title: str, unit: str) -> str:
    """Return the end of the opening tag, which makes it a picture with words, and the words."""
    return (
        f'role="img" aria-labelledby="{prefix}title" aria-describedby="{prefix}desc"'
        ' font-family="monospace" font-size="11" fill="#111">\n'
        f'<title id="{prefix}title">{escape(printable(title))}</title>\n'
        f'<desc id="{prefix}desc">{escape(_description(folded, _whole(folded), unit))}</desc>\n'
    )


def _whole(folded: Folded) -> int:
    return sum(weight for weight in folded.values() if weight > 0)


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


def _boxes(folded: Folded, width: float) -> Iterator[_Drawn]:
    """Yield each box wide enough to be seen in a picture of that width; no recursion."""
    waiting: list[tuple[_Box, int, float, float]] = [(_tree(folded), 0, PAD, width - 2 * PAD)]
    while waiting:
        parent, depth, left, room = waiting.pop()
        for name, box in sorted(parent.inner.items()):
            wide = room * box.value / parent.value
            if wide >= MIN_WIDTH:
                yield _Drawn(depth, left, wide, name, box.value)
                waiting.append((box, depth + 1, left, wide))
            left += wide


def _height(boxes: Sequence[_Drawn], top: int) -> int:
    return top + ROW * (1 + max((box.depth for box in boxes), default=0)) + PAD


def _shapes(boxes: Sequence[_Drawn], top: int, whole: int, unit: str) -> str:
    return "".join(_shape(box, top, whole, unit) for box in boxes)


def _shape(box: _Drawn, top: int, whole: int, unit: str) -> str:
    y = top + box.depth * ROW
    text = ""
    if box.width >= MIN_TEXT:
        room = int((box.width - 6) / CHARACTER)
        shown = box.name if len(box.name) <= room else f"{box.name[: max(room - 2, 1)]}.."
        text = f'<text x="{box.x + 3:.1f}" y="{y + 12.5:g}">{escape(shown)}</text>'
    share = f"{escape(box.name)}: {box.value} {escape(unit)}, {100 * box.value / whole:.1f}%"
    return (
        f'<g><title>{share}</title><rect x="{box.x:.1f}" y="{y}" width="{max(box.width - 0.3, 0.1):.1f}"'
        f' height="{ROW - 1}" fill="{_colour(box.name)}"/>{text}</g>\n'
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
