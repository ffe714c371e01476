"""The trend page as a reader meets it: on a phone, in the dark, on paper, without a network, by ear."""

import io
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from pypdf import PdfReader

from hotplug_timer.history import page, store
from hotplug_timer.history.entry import Conditions, failure
from hotplug_timer.history.series import look
from tests.browser.pagetools import (
    DESK,
    PAPER,
    PHONE,
    Open,
    check_brightness,
    check_paper,
    keep_screenshot,
    per_size,
    pictures_of,
    schemes,
    width_of,
)
from tests.samples.histories import DAYS, NOISES, entry, history, nights, started

SECTIONS = ("To mind", "Verdicts", "Trends", "Changes", "Failed runs", "Data to save")


@pytest.fixture(scope="session")
def trend(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the history that the documentation shows."""
    folder = tmp_path_factory.mktemp("trend")
    contents = store.read(root / "docs/examples/history")
    page.write_report(look(contents.entries), contents.notices, "madeup", folder, None)
    return folder / page.PAGE


@pytest.fixture(scope="session")
def full_trend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every section, every verdict, many variants and long unbroken words."""
    folder = tmp_path_factory.mktemp("full")
    long = "a" * 200
    odd = Conditions("ppc64le", 1920, 8, False, "firmware", "smt-control", True, long)
    entries = history(nights(1, NOISES["bad nights"], step_at=78), variant=long, host=long)
    entries += history(nights(2, NOISES["long tails"], step_at=78, step=0.8), variant="<b>", conditions=odd)
    for at in range(6):
        entries += history(nights(at, NOISES["independent"], count=4 + 20 * at), variant=f"variant {at}")
    entries.append(entry(30, 1.0, variant="stock", failed=long))
    entries.append(failure(long, long, started(DAYS), long))
    page.write_report(look(entries), [long], "madeup", folder, None)
    return folder / page.PAGE


per_page = pytest.mark.parametrize("name", ["trend", "full_trend"])


@schemes
@per_page
@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
def test_nothing_sticks_out_of_the_window(
    open_page: Open, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    assert width_of(open_page(request.getfixturevalue(name), width, scheme=scheme)) == width


@schemes
@per_page
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_axe_finds_nothing(
    open_page: Open, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    found = Axe().run(open_page(request.getfixturevalue(name), width, scheme=scheme))
    assert found.violations_count == 0, found.generate_report()


def test_all_pictures_and_regions_have_names(open_page: Open, trend: Path) -> None:
    pictures = pictures_of(open_page(trend))
    assert [name for name, _ in pictures] == [
        "madeup1 patched smt=off over time",
        "madeup1 stock smt=off over time",
    ]
    assert all("Median seconds (emulated)" in description for _, description in pictures)


def test_dark_is_dark_and_light_is_light_and_paper_is_light_in_both(open_page: Open, trend: Path) -> None:
    check_brightness(open_page, trend)


@per_page
def test_on_paper_nothing_is_clipped(open_page: Open, request: pytest.FixtureRequest, name: str) -> None:
    check_paper(open_page(request.getfixturevalue(name), PAPER))


def test_printing_has_every_section(open_page: Open, full_trend: Path) -> None:
    pdf = PdfReader(io.BytesIO(open_page(full_trend).pdf(prefer_css_page_size=True, format="A4")))
    text = " ".join(" ".join(sheet.extract_text().split()) for sheet in pdf.pages)
    for section in SECTIONS:
        assert section in text
    assert "inside history.html, from which this was printed" in text
    assert "On this page" not in text


def test_links_save_files_of_the_right_names_and_contents(open_page: Open, trend: Path) -> None:
    opened = open_page(trend)
    for name in ("verdicts.csv", page.SUMMARY):
        with opened.expect_download() as download:
            opened.locator(f"a[download='{name}']").click()
        assert download.value.suggested_filename == name
        assert download.value.path().read_bytes()
    assert download.value.path().read_bytes() == trend.with_name(page.SUMMARY).read_bytes()


def test_a_history_of_years_opens(open_page: Open, tmp_path: Path) -> None:
    entries = history(nights(1, NOISES["bad nights"], count=3650))
    page.write_report(look(entries), [], "madeup", tmp_path, None)
    path = tmp_path / page.PAGE
    assert path.stat().st_size < 500_000
    opened = open_page(path, PHONE)
    assert width_of(opened) == PHONE
    assert "Only the newest nights are drawn" in opened.inner_text("figcaption")


@schemes
@per_size
def test_screenshots(
    open_page: Open, trend: Path, screenshots: Path, size: tuple[int, int], scheme: str
) -> None:
    """The documentation shows some of them; see docs/guides/contributors/index.md."""
    opened = open_page(trend, *size, scheme)
    if size[0] == PHONE:
        opened.locator("#trends").scroll_into_view_if_needed()
        opened.evaluate("document.querySelector('#trends').scrollIntoView({behavior: 'instant'})")
    keep_screenshot(opened, screenshots, "history", size, scheme)
