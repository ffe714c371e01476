"""What every test may use, and the order of the tests: what is quick to fail comes first."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run unit tests and linters, then kernel builds, then guests; each group in its usual order."""
    items.sort(key=lambda item: [item.get_closest_marker(name) is not None for name in ("lab", "kernel")])
