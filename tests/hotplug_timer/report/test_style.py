"""The report's stylesheet: whether its colours can be read, computed from the sheet itself."""

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from itertools import product

import pytest
import tinycss2
from tinycss2.color3 import RGBA, parse_color

SHEET = files("hotplug_timer").joinpath("templates/report.css").read_text("utf-8")
#: WCAG 2.2, success criteria 1.4.3 (AA, text) and 1.4.11 (what is needed to understand a picture).
TEXT, GRAPHIC = 4.5, 3.0
SERIES = [f"--series-{at}" for at in range(6)]
#: What is written on what.
WRITTEN = [
    *product(["--ink", "--soft", "--link", "--good", "--bad", *SERIES], ["--page", "--card"]),
    ("--ink", "--note"),
    ("--link", "--note"),
    ("--soft", "--head"),
    ("--ink", "--head"),
    ("--good", "--good-back"),
    ("--bad", "--bad-back"),
]
DARK = "screen and (prefers-color-scheme: dark)"


def rules(text: str) -> Iterable[tuple[str, tinycss2.ast.QualifiedRule]]:
    """Yield (media query or "", rule) for all style rules."""
    for rule in tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True):
        assert rule.type != "error", rule
        if rule.type == "qualified-rule":
            yield "", rule
        elif rule.lower_at_keyword == "media":
            media = tinycss2.serialize(rule.prelude).strip()
            for inner in tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True):
                if inner.type == "qualified-rule":
                    yield media, inner


def declarations(rule: tinycss2.ast.QualifiedRule) -> dict[str, str]:
    found = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
    assert all(one.type == "declaration" for one in found), found
    return {one.name: tinycss2.serialize(one.value).strip() for one in found}


def colours(media: str) -> dict[str, RGBA]:
    """Return the colours of the page where a media query holds."""
    found: dict[str, RGBA] = {}
    for where, rule in rules(SHEET):
        if tinycss2.serialize(rule.prelude).strip() == ":root" and where in ("", media):
            found |= {
                name: colour
                for name, value in declarations(rule).items()
                if name.startswith("--") and (colour := parse_color(value))
            }
    return found


def luminance(colour: RGBA) -> float:
    """Return a colour's relative luminance, as WCAG defines it."""
    parts = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in colour[:3])
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: RGBA, other: RGBA) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    black, white, grey = (parse_color(name) for name in ("#000", "#fff", "#767676"))
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("media", ["", DARK], ids=["light", "dark"])
def test_what_is_written_can_be_read(media: str) -> None:
    named = colours(media)
    found = {(ink, back): contrast(named[ink], named[back]) for ink, back in WRITTEN}
    assert {pair: ratio for pair, ratio in found.items() if ratio < TEXT} == {}


@pytest.mark.parametrize("media", ["", DARK], ids=["light", "dark"])
def test_the_outline_of_what_has_the_focus_can_be_seen(media: str) -> None:
    named = colours(media)
    assert contrast(named["--link"], named["--page"]) >= GRAPHIC


def test_dark_colours_replace_all_light_ones() -> None:
    def defined(media: str) -> Mapping[str, str]:
        return {
            name: value
            for where, rule in rules(SHEET)
            if where == media and tinycss2.serialize(rule.prelude).strip() == ":root"
            for name, value in declarations(rule).items()
            if name.startswith("--")
        }

    assert defined("").keys() == defined(DARK).keys()


def test_colours_are_named_in_one_place() -> None:
    """What is not a named colour has no contrast that a test has computed; paper is white."""
    for media, rule in rules(SHEET):
        if tinycss2.serialize(rule.prelude).strip() == ":root":
            continue
        for name, value in declarations(rule).items():
            found = re.findall(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl)a?\(", value)
            assert found == [] or (media, found) == ("print", ["#fff"]), (name, value)


def test_paper_is_not_dark_and_motion_can_be_turned_off() -> None:
    queries = {media for media, _ in rules(SHEET)}
    assert {DARK, "print", "(prefers-reduced-motion: reduce)"} <= queries
    assert not any("dark" in media and "screen" not in media for media in queries)
