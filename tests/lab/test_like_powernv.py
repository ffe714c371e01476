"""Guests without a hypervisor: a CPU that goes offline sleeps in a stop state, and does not call RTAS."""

import re
from collections.abc import Iterator

import pytest

from hotplug_common.guest import qemu
from hotplug_host.sysfs import SMT_CONTROL
from tests.lab.labtools import Lab

# A kernel of its own may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(3000)]

GUEST = "metal"
ONLINE = "/sys/devices/system/cpu/online"
TRACING = "/sys/kernel/tracing"
LEVELS = {"off": "0,4", "2": "0-1,4-5", "on": "0-7"}


@pytest.fixture(scope="module", params=qemu.POWERNV)
def guest(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    words = ("--like", request.param, "--cores", "2", "--threads", "4", "--variant", "patched")
    lab.must("up", GUEST, *words, timeout=2700)
    yield GUEST
    lab.must("down", GUEST)


def test_smt_is_switched_in_chunks_under_opal(guest: str, lab: Lab) -> None:
    def inside(command: str) -> str:
        return lab.must("ssh", guest, "--", command, timeout=300)

    assert "firmware\t: OPAL" in inside("cat /proc/cpuinfo")
    inside(f"echo 1 > {TRACING}/events/cpuhp/cpuhp_bulk_end/enable")
    for level, online in LEVELS.items():
        inside(f"echo {level} > {SMT_CONTROL}")
        assert inside(f"cat {ONLINE}").strip() == online
    ends = re.findall(r"cpuhp_bulk_end: (.*)", inside(f"cat {TRACING}/trace"))
    assert ends == [
        "down done: 6 chunks: 1 rendezvous: 1 ret: 0",
        "up done: 2 chunks: 1 rendezvous: 0 ret: 0",
        "up done: 4 chunks: 1 rendezvous: 0 ret: 0",
    ]
    console = lab.must("console", guest)
    assert not re.search("WARNING:|BUG:|stuck", console)
