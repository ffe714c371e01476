"""What every test may use, and the order of the tests: what is quick to fail comes first."""

import os
import signal
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Examples per property: of make test-quick, of all else, and of a round of tests/fuzz.py.
hypothesis.settings.register_profile("quick", max_examples=25, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None)
hypothesis.settings.register_profile("fuzz", max_examples=5_000, deadline=None, database=None)
hypothesis.settings.load_profile("ci")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    """Leave the signals that end pytest to pytest: code under test catches them only in a child of it.

    Else `timeout` ends what one test has called, and pytest goes on.
    """
    own, install = os.getpid(), signal.signal

    def outside_of_pytest(number: int, handler: Any) -> Any:
        """Install a handler; in pytest's own process leave what ends it as it is."""
        mine = handler is not signal.default_int_handler and callable(handler)
        if os.getpid() == own and mine and number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            return signal.getsignal(number)
        return install(number, handler)

    signal.signal = outside_of_pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots", metavar="DIR", help="keep the browser tests' screenshots in this folder"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run unit tests and linters, then pages in a browser, kernel builds, guests; each in its usual order."""
    groups = ("lab", "kernel", "browser")
    items.sort(key=lambda item: [item.get_closest_marker(name) is not None for name in groups])
