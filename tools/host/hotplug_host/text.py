"""Text from elsewhere (host names, variants, command lines), made fit to be printed."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

#: Control and format characters, surrogates, what is unassigned or private, and line or paragraph ends: a
#: terminal obeys some of them, others turn the reading direction or are invisible.
UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
#: Between two columns.
GAP = "  "


def printable(text: str) -> str:
    r"""Return the text with every character that is not to be seen as an escape ("\x1b", "\u202e")."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(one) if unicodedata.category(one) in UNPRINTABLE else one for one in text)


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> str:
    """Return rows of cells as lines of columns; the columns LEFT hold words, the others numbers.

    A column is as wide as its widest cell. Every row has the same number of cells.
    """
    lines = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*lines)]
    return "".join(f"{GAP.join(_padded(line, widths, left)).rstrip()}\n" for line in lines)


def _padded(line: Sequence[str], widths: Sequence[int], left: Collection[int]) -> list[str]:
    spaces = [" " * (width - _width(cell)) for cell, width in zip(line, widths)]
    return [cell + more if at in left else more + cell for at, (cell, more) in enumerate(zip(line, spaces))]


def _width(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) > 0 for one in text)


def _escaped(one: str) -> str:
    code = ord(one)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
