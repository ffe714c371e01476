"""One lab for all tests; whatever a failed test left in it is taken down."""

from collections.abc import Iterator

import pytest

from tests.lab.labtools import Lab, opened


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with opened(tmp_path_factory.mktemp("lab")) as lab:
        yield lab
