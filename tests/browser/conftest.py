"""A headless Chromium of Debian's, and the pages that tests open in it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.samples.reportpages import write_full_report

HERE = Path(__file__).resolve().parent

CHROMIUM = "chromium-headless-shell"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which(CHROMIUM)
    assert program, f"{CHROMIUM} is not installed; run tools/setup/setup.sh tests"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program)
        yield found
        found.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every section, of real traces."""
    return write_full_report(tmp_path_factory.mktemp("report"))


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file in a window of a size and a colour scheme; what Chromium complains of fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(path: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            accept_downloads=True,
        )
        # Milliseconds: other tests may keep every CPU busy.
        context.set_default_timeout(90_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: _check_local(request.url, complaints))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def _check_local(url: str, complaints: list[str]) -> None:
    if not url.startswith(("file:", "data:")):
        complaints.append(f"asked for {url}")


@pytest.fixture(scope="session")
def screenshots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where to put screenshots: a folder of this run, or that of --screenshots."""
    named = request.config.getoption("--screenshots")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
