"""Fixtures of the playbooks' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import fake_lpar
from tests.fakes.fake_lpar import FakeLpar


@pytest.fixture
def host(tmp_path: Path) -> FakeLpar:
    """A healthy fake host with two artefacts, and variables for a short run."""
    return fake_lpar.build(tmp_path)


@pytest.fixture
def switching(host: FakeLpar) -> FakeLpar:
    """The same host with two cores x SMT4 and a kernel and a ppc64_cpu that switch them."""
    return host.act()
