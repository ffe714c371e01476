"""Columns of plain text, on the Python of a measured host too."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.text import aligned

CELLS = st.text(st.characters(codec="utf-8", exclude_categories=["Zs"]), max_size=8)


def width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) > 0 for one in text)


def test_words_are_to_the_left_and_numbers_to_the_right() -> None:
    assert aligned([["name", "n"], ["a", "10"], ["long name", "5"]], left=(0,)) == (
        "name        n\na          10\nlong name   5\n"
    )
    assert aligned([["a", "b"]]) == "a  b\n"
    assert aligned([]) == ""


def test_lines_have_no_spaces_at_their_ends() -> None:
    assert aligned([["a", "word"], ["b", ""]], left=(0, 1)) == "a  word\nb\n"


def test_wide_and_combining_characters_take_the_columns_that_a_terminal_gives_them() -> None:
    assert aligned([["東京", "1"], ["e\N{COMBINING ACUTE ACCENT}", "2"]], left=(0,)) == (
        "東京  1\ne\N{COMBINING ACUTE ACCENT}     2\n"
    )


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_numbers_end_in_one_column_whatever_the_cells_hold(rows: list[tuple[str, str]]) -> None:
    lines = aligned([[*row, "."] for row in rows]).splitlines()
    assert len(lines) == len(rows)
    assert len({width(line) for line in lines}) == 1
