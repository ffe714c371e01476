"""Fixtures of the playbooks' tests."""

from __future__ import annotations

from pathlib import Path

import fake_lpar
import pytest


@pytest.fixture
def host(tmp_path: Path) -> fake_lpar.FakeHost:
    """A healthy fake host with two artefacts, and variables for a short run."""
    return fake_lpar.build(tmp_path)
