"""The Molecule scenario: a POWER and an x86-64 guest in one play, from their creation to their end."""

import re

import pytest

from tests.lab.labtools import opened

# Four kernels and two base disks may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(7200)]

GUESTS = ("molecule-power", "molecule-x86")


def test_both_guests_get_their_kernels_are_timed_and_go_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # A lab of its own: in the end the scenario removes all that is in its folder.
    with opened(tmp_path_factory.mktemp("fleet")) as lab:
        done = lab.molecule("test", "fleet", timeout=7000)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout[-8000:]
    # Looked at by testinfra before, with the kernel deployed, and after.
    assert re.findall(r"=+ (\d+) passed in", said) == ["6", "10", "6"]
    for guest in GUESTS:
        assert re.search(rf"{guest}: would start \S+-patched-\S+ with boot=kexec", said)
        assert re.search(rf"{guest} runs \S+-patched-\S+, proven by its boot_id", said)
        assert f"{guest}: runs" in said, "the second time nothing is to be done"
        assert re.search(rf"{guest} runs its default kernel \S+-stock-", said)
