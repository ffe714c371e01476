"""What the tests of several pages have in common."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

Open = Callable[..., Page]
PHONE, DESK = 360, 1200
#: Pixels of A4 (96 an inch) between the margins that the style sheet asks for.
PAPER = round((210 - 2 * 12) / 25.4 * 96)
WIDER = "elements => elements.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim())"
#: Bytes of a picture that is fit to be in the documentation.
MAX_PICTURE = 150_000
schemes = pytest.mark.parametrize("scheme", ["light", "dark"])
per_size = pytest.mark.parametrize("size", [(1000, 1350), (PHONE, 760)], ids=["desk", "phone"])


def width_of(page: Page) -> int:
    """Return how wide the page is, with what sticks out of its window."""
    return int(page.evaluate("document.documentElement.scrollWidth"))


def mean_brightness(shot: bytes) -> float:
    """Return the mean brightness of a screenshot, 0 to 255."""
    with Image.open(io.BytesIO(shot)) as image:
        histogram = image.convert("L").histogram()
    return sum(value * count for value, count in enumerate(histogram)) / sum(histogram)


def keep_screenshot(page: Page, folder: Path, what: str, size: tuple[int, int], scheme: str) -> None:
    """Write what is seen of a page; fails where nothing is, or it is too large for the documentation."""
    name = f"{what}-{'phone' if size[0] == PHONE else 'desk'}-{scheme}.png"
    with Image.open(io.BytesIO(page.screenshot())) as image:
        assert image.size == size
        # Not one colour: something was drawn.
        assert len(image.convert("RGB").getcolors(maxcolors=1 << 24) or []) > 50
        image.convert("RGB").quantize(128).save(folder / name, optimize=True)
    assert (folder / name).stat().st_size < MAX_PICTURE


def pictures_of(page: Page) -> list[tuple[str, str]]:
    """Return name and description of each picture; fails where anything that has to have a name has none."""
    session = page.context.new_cdp_session(page)
    nodes = [node for node in session.send("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    named = {"image", "img", "region", "group", "table", "link", "heading", "navigation"}
    found = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
    assert [role for role, name in found if role in named and not name.strip()] == []
    pictures = [node for node in nodes if node["role"]["value"] in ("image", "img")]
    return [(node["name"]["value"], node["description"]["value"]) for node in pictures]


def check_brightness(open_page: Open, path: Path) -> None:
    """Dark is dark, light is light, and paper is light in both."""
    light, dark = (open_page(path, scheme=scheme) for scheme in ("light", "dark"))
    assert mean_brightness(light.screenshot()) > 200
    assert mean_brightness(dark.screenshot()) < 80
    dark.emulate_media(media="print")
    assert mean_brightness(dark.screenshot()) > 200


def check_paper(page: Page) -> None:
    """Nothing is clipped on paper, in a window of `PAPER`."""
    page.emulate_media(media="print")
    assert width_of(page) == PAPER
    assert page.locator(".scroll, .card, figure, th, td").evaluate_all(WIDER) == []
