"""Types of options that name a kernel, for the programs of the controller."""

from __future__ import annotations

from hotplug_common.kernel import lines, series
from hotplug_common.paths import Paths


def line(text: str) -> str:
    """Read the name of a kernel line; the checkout's data files define which there are."""
    return lines.load(Paths.from_environment().patches, text).name


def variant(text: str) -> str:
    """Read the name of a kernel variant; the checkout's patch folders define which there are."""
    series.require_variant(Paths.from_environment().patches, text)
    return text
