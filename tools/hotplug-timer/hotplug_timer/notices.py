"""Notes and warnings beside what a command prints: one line each, on standard error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from hotplug_host.text import printable


def print_lines(kind: str, texts: Iterable[str], stream: TextIO) -> None:
    """Print "note" or "warning" lines."""
    for text in texts:
        stream.write(f"hotplug-timer: {kind}: {printable(text)}\n")
