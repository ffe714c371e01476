"""One lab for all tests; whatever a failed test left in it is taken down."""

from collections.abc import Iterator

import pytest
from labtools import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.must("down", "--all")
    lab.assert_empty()
