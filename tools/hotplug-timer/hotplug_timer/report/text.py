"""Numbers and words as the report writes them where there is little room."""

from __future__ import annotations

import math
import re

from markupsafe import Markup

from hotplug_host.text import printable

#: Longer words may be broken: behind marks in them, or anywhere where they have none.
MAX_WORD = 24
PARTS = re.compile(r"[^-_/,;:=.]{1,16}[-_/,;:=.]{0,8}|[-_/,;:=.]{1,16}")


def short_seconds(seconds: float) -> str:
    """Return seconds with three digits that count, without a unit; "0" for nothing."""
    return f"{seconds:.{max(2 - math.floor(math.log10(seconds)), 0)}f}" if seconds > 0 else "0"


def breakable(value: str) -> Markup:
    """Return a text, escaped, with places to break long words: a table fits on paper whatever is in it."""
    words = re.split(r"(\s+)", printable(value))
    return Markup("").join(
        Markup("<wbr>").join(PARTS.findall(word)) if len(word) > MAX_WORD else word for word in words
    )
