"""Shared pieces: paths that stay in a temporary folder, progress that is collected."""

from pathlib import Path

import pytest

import tests
from hotplug_common.paths import Paths
from tests.samples.kernellines import write_line


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    project = tmp_path / "project"
    (project / "kernel-patches/configs").mkdir(parents=True)
    for line in ("6.12", "7.3"):
        write_line(project / "kernel-patches", line)
    return Paths(tmp_path / "cache", tmp_path / "state", project)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def golden() -> Path:
    return tests.GOLDEN / "lpar_lab"
