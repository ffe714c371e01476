"""How sure a number is: a picture of the demo's boots and iterations, and what so many boots find."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

import numpy as np

from docpages.paths import DEMO, DOCS
from hotplug_common.boots import smallest_effect
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.compare.comparison import Row, compare
from hotplug_timer.reader import read_files

PICTURE = DOCS / "pictures/boots.svg"
OPERATION = "smt=off"
SPREADS_PERCENT = (1, 2, 5, 10, 20, 50)
BOOTS = (2, 3, 4, 6, 10, 20)
#: Of the picture: size, and the seconds at its lower and upper end against those of a typical boot.
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 300, 70, 30, 60
LOW, HIGH = 0.6, 1.6
MARKS = (0.6, 0.8, 1.0, 1.25, 1.6)


def table() -> str:
    """Return the smallest decrease that so many boots a side find, by their spread, in Markdown."""
    head = ["your spread of boots", *(f"{boots} boots a side" for boots in BOOTS)]
    lines = [head, ["---"] * len(head)]
    for percent in SPREADS_PERCENT:
        logs = percent / 100 * smallest_effect(np.array(BOOTS))
        lines.append([f"{percent}%", *(f"{-100 * math.expm1(-one):.1f}%" for one in logs)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def picture() -> str:
    """Return the picture as SVG: each iteration of the demo as a dot, the median of each boot as a bar."""
    comparison = compare(read_files(sorted(DEMO.glob("*.jsonl"))), "stock")
    rows = [row for row in comparison.rows if row.operation == OPERATION]
    if not rows:
        raise ToolError(f"no {OPERATION} in {DEMO}", "keep a demo that has one", ExitCode.INPUT)
    step = (WIDTH - LEFT - 20) / sum(row.spread.boots for row in rows)
    parts = [_mark(value) for value in MARKS]
    at = float(LEFT)
    for row in rows:
        parts += _boots(row, at, step)
        at += step * row.spread.boots
    words = "Seconds of smt=off in the demo against a typical boot of the same kernel."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            ' font-family="sans-serif" font-size="13">',
            f"<title>Boots and iterations</title><desc>{escape(words)} {escape(_told(rows))}</desc>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="18">{escape(words)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _boots(row: Row, left: float, step: float) -> list[str]:
    typical = math.exp(float(np.mean([np.median(np.log(boot)) for boot in row.boots])))
    parts = []
    for number, boot in enumerate(row.boots):
        at, middle = left + step * number, math.exp(float(np.median(np.log(boot)))) / typical
        room = step / (len(boot) + 1)
        parts.append(
            f'<path d="M{at + 8:.1f} {_y(middle):.1f}H{at + step - 8:.1f}" stroke="#b3261e"'
            ' stroke-width="3"/>'
        )
        parts += [
            f'<circle cx="{at + room * place:.1f}" cy="{_y(seconds / typical):.1f}" r="4" fill="#1f4e8c"/>'
            for place, seconds in enumerate(boot, 1)
        ]
        parts.append(
            f'<text x="{at + step / 2:.1f}" y="{HEIGHT - 34}" text-anchor="middle">boot {number + 1}</text>'
        )
    parts.append(
        f'<text x="{left + step * len(row.boots) / 2:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
        f"{escape(row.variant)}: {typical:.2f} s in a typical boot</text>"
    )
    return parts


def _told(rows: list[Row]) -> str:
    told = [
        f"{row.variant}: {row.spread.boots} boots that differ by {row.spread.boot_sd_percent or 0:.1f}%,"
        f" iterations within them by {row.spread.within_sd_percent or 0:.1f}%"
        for row in rows
    ]
    return f"{'; '.join(told)}."


def _mark(value: float) -> str:
    return (
        f'<path d="M{LEFT} {_y(value):.1f}H{WIDTH - 20}" stroke="#c8c8c8"/>'
        f'<text x="{LEFT - 8}" y="{_y(value) + 4:.1f}" text-anchor="end">{100 * value - 100:+.0f}%</text>'
    )


def _y(ratio: float) -> float:
    """Return the height of a ratio, on a logarithmic scale; what is off the scale stays at its edge."""
    share = math.log(min(max(ratio, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
