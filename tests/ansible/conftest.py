"""Fixtures of the playbooks' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import fake_lpar

# The host that does what a kernel does, of hotplug-timer's tests.
from tests.fakes.fakehost import FakeHost


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
