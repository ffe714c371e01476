"""Data embedded in the page, as far as it fits: links that save a file and need no script."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

#: Characters of all embedded files together, before the base64 that makes them a third longer.
BUDGET = 1 << 23


@dataclass(frozen=True)
class Datum:
    """A file that the page may hold. CONTENT is None where there is too much of it to have been kept.

    WHAT says what is in it, and ELSEWHERE where else to get it from.
    """

    name: str
    mime: str
    content: str | None
    what: str
    elsewhere: str


@dataclass(frozen=True)
class Download:
    """A file that the page holds."""

    name: str
    uri: str
    size: str
    what: str


def embed(data: Iterable[Datum], budget: int = BUDGET) -> tuple[list[Download], list[Datum]]:
    """Return the files that fit into the budget, taken in order, and those left out."""
    downloads: list[Download] = []
    left_out: list[Datum] = []
    for datum in data:
        if datum.content is None or len(datum.content) > budget:
            left_out.append(datum)
            continue
        budget -= len(datum.content)
        raw = datum.content.encode()
        uri = f"data:{datum.mime};base64,{base64.b64encode(raw).decode()}"
        downloads.append(Download(datum.name, uri, _size(len(raw)), datum.what))
    return downloads, left_out


def _size(octets: int) -> str:
    if octets < 1000:
        return f"{octets} bytes"
    return f"{octets / 1000:.0f} kB" if octets < 10**6 else f"{octets / 10**6:.1f} MB"
