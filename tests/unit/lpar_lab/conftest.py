"""Shared pieces: paths that stay in a temporary folder, progress that is collected."""

from pathlib import Path

import pytest

from lpar_lab.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    project = tmp_path / "project"
    (project / "kernel-patches/configs").mkdir(parents=True)
    return Paths(tmp_path / "cache", tmp_path / "state", project)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def golden() -> Path:
    return Path(__file__).parents[2] / "golden/lpar_lab"
