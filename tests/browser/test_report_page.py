"""The report as a reader meets it: on a phone, in the dark, on paper, without a network, by ear."""

import io
import unicodedata
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from pypdf import PdfReader

from hotplug_timer.reader import read_files
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
from tests.samples.large_results import write_pair
from tests.samples.reportpages import page_of
from tests.samples.resultfiles import records, write

SECTIONS = (
    "To mind",
    "Seconds",
    "Every sample",
    "What one transition costs the whole machine",
    "Time per state",
    "Off-CPU time",
    "Host, kernels and blocks",
    "Data to save",
)


@pytest.fixture(scope="session")
def warned_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with warnings, long unbroken words and a variant that is slower."""
    folder = tmp_path_factory.mktemp("warned")
    long = "a" * 300
    files = [
        write(folder / "a", records("r1", "stock", [1.0, 1.1, 1.2, 1.3, 9.0], hostname=long, cmdline=long)),
        write(folder / "b", records("r2", long, [2.0, 2.1, 2.2, 2.3, 2.4], hostname="<b>", minute=1)),
    ]
    page_of(read_files(files), folder)
    return folder / "report.html"


@pytest.fixture(scope="session")
def demo_report(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the results that the README shows."""
    folder = tmp_path_factory.mktemp("demo")
    page_of(read_files(sorted((root / "docs/examples/demo").glob("*.jsonl"))), folder)
    return folder / "report.html"


@schemes
@pytest.mark.parametrize("name", ["report", "warned_report"])
@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
def test_nothing_sticks_out_of_the_window(
    open_page: Open, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    page = open_page(request.getfixturevalue(name), width, scheme=scheme)
    assert width_of(page) == width


def test_a_wide_table_scrolls_in_its_own_box_with_the_keyboard(open_page: Open, report: Path) -> None:
    page = open_page(report, PHONE)
    box = page.get_by_role("group", name="Seconds of timed transitions")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("box => box.scrollLeft > 0", arg=box.element_handle())


@schemes
@pytest.mark.parametrize("name", ["report", "warned_report"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_axe_finds_nothing(
    open_page: Open, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    page = open_page(request.getfixturevalue(name), width, scheme=scheme)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_all_pictures_and_regions_have_names(open_page: Open, report: Path) -> None:
    page = open_page(report)
    pictures = pictures_of(page)
    assert len(pictures) == 7
    assert all(len(description) > 40 for _, description in pictures)


def test_the_keyboard_gets_past_the_head(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
    assert page.locator(".skip").bounding_box()["y"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.url.endswith("#result")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_who_wants_no_motion_gets_none(open_page: Open, report: Path, motion: str) -> None:
    page = open_page(report)
    page.emulate_media(reduced_motion="reduce" if motion == "reduce" else "no-preference")
    behaviour = page.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
    assert behaviour == ("auto" if motion == "reduce" else "smooth")


def test_dark_is_dark_and_light_is_light_and_paper_is_light_in_both(open_page: Open, report: Path) -> None:
    check_brightness(open_page, report)


@pytest.mark.parametrize("name", ["report", "warned_report"])
def test_on_paper_nothing_is_clipped(open_page: Open, request: pytest.FixtureRequest, name: str) -> None:
    page = open_page(request.getfixturevalue(name), PAPER)
    check_paper(page)


def test_printing_has_every_section_and_splits_no_picture(open_page: Open, report: Path) -> None:
    page = open_page(report)
    pdf = PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True, format="A4")))
    pages = [unicodedata.normalize("NFKC", " ".join(found.extract_text().split())) for found in pdf.pages]
    text = " ".join(pages)
    for section in SECTIONS[1:]:
        assert section in text
    assert "inside report.html, from which this was printed" in text
    assert "On this page" not in text
    # A heading, its picture's axis and the caption below are on one sheet.
    assert any("smt=off" in sheet and "sample, in time order" in sheet for sheet in pages)
    states = next(sheet for sheet in pages if "seconds per transition, by the clock" in sheet)
    assert "takedown_cpu" in states
    assert "The longest states" in states


def test_links_save_files_of_the_right_names_and_contents(open_page: Open, report: Path) -> None:
    page = open_page(report)
    names = page.locator("a[download]").evaluate_all("links => links.map(link => link.download)")
    assert names[:3] == ["comparison.csv", "summary.json", "results.jsonl"]
    for name in names:
        with page.expect_download() as download:
            page.locator(f"a[download='{name}']").click()
        assert download.value.suggested_filename == name
        saved = download.value.path().read_bytes()
        if name == "summary.json":
            assert saved == report.with_name("summary.json").read_bytes()
        assert saved


def test_no_script_runs_even_if_one_got_in(open_page: Open, report: Path, tmp_path: Path) -> None:
    """The policy is what holds if escaping ever should not."""
    copy = tmp_path / "report.html"
    text = report.read_text("utf-8")
    copy.write_text(
        text.replace("<h1>", '<script>document.title = "run"</script><h1 style="display: none">'), "utf-8"
    )
    page = open_page(report)
    page.on("console", lambda message: None)
    other = page.context.new_page()
    refused: list[str] = []
    other.on("console", lambda message: refused.append(message.text))
    other.goto(copy.as_uri())
    assert other.title() == page.title()
    assert other.locator("h1").is_visible()
    assert len(refused) == 2
    assert all("Content Security Policy" in text for text in refused)


def test_a_report_of_many_iterations_opens(open_page: Open, tmp_path: Path) -> None:
    page_of(read_files(write_pair(tmp_path, 20_000)), tmp_path)
    path = tmp_path / "report.html"
    assert path.stat().st_size < 2_000_000
    page = open_page(path, PHONE)
    assert width_of(page) == PHONE
    assert "too many to draw them all" in page.inner_text("figcaption")
    assert "results.jsonl" in page.inner_text("#data ~ ul:last-of-type")


@schemes
@per_size
def test_screenshots(
    open_page: Open, demo_report: Path, screenshots: Path, size: tuple[int, int], scheme: str
) -> None:
    """The documentation shows some of them; see docs/guides/contributors/index.md."""
    keep_screenshot(open_page(demo_report, *size, scheme), screenshots, "report", size, scheme)
