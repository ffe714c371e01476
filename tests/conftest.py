"""What every test may use, and the order of the tests: what is quick to fail comes first."""

from pathlib import Path

import hypothesis
import pytest

# A round of tests/fuzz.py.
hypothesis.settings.register_profile("fuzz", max_examples=5_000, deadline=None, database=None)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots", metavar="DIR", help="keep the browser tests' screenshots in this folder"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run unit tests and linters, then pages in a browser, kernel builds, guests; each in its usual order."""
    groups = ("lab", "kernel", "browser")
    items.sort(key=lambda item: [item.get_closest_marker(name) is not None for name in groups])
