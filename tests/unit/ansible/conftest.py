"""Fixtures of the playbooks' tests."""

from __future__ import annotations

import sys
from pathlib import Path

import fake_lpar
import pytest

# The host that does what a kernel does, of hotplug-timer's tests.
sys.path.append(str(Path(__file__).parents[1] / "hotplug_timer"))
from fakehost import FakeHost


@pytest.fixture
def host(tmp_path: Path) -> fake_lpar.FakeHost:
    """A healthy fake host with two artefacts, and variables for a short run."""
    return fake_lpar.build(tmp_path)


@pytest.fixture
def switching(host: fake_lpar.FakeHost) -> FakeHost:
    """The same host with two cores x SMT4 and a kernel and a ppc64_cpu that switch them."""
    kernel = FakeHost.build(host.root)
    kernel.put("proc/cmdline", fake_lpar.DEFAULT_CMDLINE)
    kernel.put("proc/sys/kernel/osrelease", fake_lpar.DEFAULT_RELEASE)
    kernel.add_fqs_delays()
    kernel.install_ppc64_cpu(path="control")
    return kernel
