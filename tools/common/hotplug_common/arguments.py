"""Types of options that the programs on the controller share."""

from __future__ import annotations

import argparse

from hotplug_common.kernel import lines, series
from hotplug_common.paths import Paths


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return number


def count(text: str) -> int:
    """Read a whole number, 0 included."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number")
    return int(text)


def above_zero(text: str, unit: str) -> float:
    """Read a positive, finite number of UNIT."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of {unit}")
    return number


def seconds(text: str) -> float:
    """Read a positive number of seconds."""
    return above_zero(text, "seconds")


def minutes(text: str) -> float:
    """Read a positive number of minutes."""
    return above_zero(text, "minutes")


def line(text: str) -> str:
    """Read the name of a kernel line; the checkout's data files define which there are."""
    return lines.load(Paths.from_environment().patches, text).name


def variant(text: str) -> str:
    """Read the name of a kernel variant; the checkout's patch folders define which there are."""
    series.require_variant(Paths.from_environment().patches, text)
    return text
