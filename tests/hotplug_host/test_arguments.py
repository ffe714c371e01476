"""The types of options that all programs share."""

import argparse
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host import arguments


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (arguments.positive, "1", 1),
        (arguments.even, "2", 2),
        (arguments.count, "0", 0),
        (arguments.seconds, "0.001", 0.001),
        (arguments.seconds, "1e6", 1e6),
        (arguments.pause, "0", 0.0),
        (arguments.pause, "0.0", 0.0),
        (arguments.pause, "2.5", 2.5),
        (arguments.ppm, "500", 500.0),
        (arguments.percent, "0", 0.0),
        (arguments.cpus, "8,0-2,8", (8, 0, 1, 2, 8)),
        (arguments.numbers, "4,1-2,2", (1, 2, 4)),
        (arguments.given, " x", " x"),
    ],
)
def test_values(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (arguments.even, "0", "'0' is not a whole number of at least 2"),
        (arguments.even, "3", "'3' is not an even number"),
        (arguments.positive, "0", "'0' is not a whole number of at least 1"),
        (arguments.positive, "\N{ARABIC-INDIC DIGIT FOUR}", "is not a whole number"),
        (arguments.positive, "9" * 16, "is not a whole number"),
        (arguments.count, "-1", "'-1' is not a whole number of at least 0"),
        (arguments.count, "1.0", "is not a whole number"),
        (arguments.seconds, "0", "'0' is not a number of seconds from 0.001 to 1000000"),
        (arguments.seconds, "inf", "is not a number of seconds"),
        (arguments.seconds, "soon", "is not a number of seconds"),
        (arguments.pause, "-1", "is not a number of seconds"),
        (arguments.pause, "nan", "is not a number of seconds"),
        (arguments.ppm, "0", "is not a number of ppm"),
        (arguments.percent, "-1", "is not a number of percent"),
        (arguments.cpus, "", "names no CPU"),
        (arguments.cpus, "3-1", "runs backwards"),
        (arguments.cpus, "x", "'x' is not a CPU number or range"),
        (arguments.numbers, "0,1", "'0,1' is not a list of numbers above 0, such as 1-4,8"),
        (arguments.numbers, "1,,2", "is not a list"),
        (arguments.numbers, "", "is not a list"),
        (arguments.given, " ", "is empty"),
    ],
)
def test_what_is_no_value_is_named(read: Callable[[str], object], text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        read(text)


@given(st.text(max_size=12))
def test_any_text_is_a_value_within_bounds_or_refused(text: str) -> None:
    for read, low, high in (
        (arguments.positive, 1, math.inf),
        (arguments.count, 0, math.inf),
        (arguments.seconds, 0.001, 1e6),
        (arguments.pause, 0, 1e6),
    ):
        try:
            value = read(text)
        except argparse.ArgumentTypeError:
            continue
        assert low <= value <= high
