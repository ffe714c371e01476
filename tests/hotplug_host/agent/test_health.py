"""How a host does, and what is worse than before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.agent import health
from hotplug_host.agent.health import Health, differences, from_record
from tests.hotplug_host.agent.conftest import Step

WELL = Health(
    failed=("old.service",),
    running=("firewalld.service", "sshd.service"),
    writable=("/", "/srv"),
    read_only=("/media",),
    links=("eth0", "eth1"),
    enforces=True,
    filters=True,
    dumps=True,
    synchronized=True,
)
SYSTEMCTL = """case "$*" in
is-system-running*) echo degraded ;;
*list-unit-files*) printf 'sshd.service enabled enabled\\nfirewalld.service enabled enabled\\n' ;;
*failed*) echo 'old.service loaded failed failed An old one' ;;
*active*) printf 'sshd.service loaded active running A\\nfirewalld.service loaded active running B\\n'
    echo 'user@0.service loaded active running C' ;;
esac"""


@pytest.fixture
def well(tmp_path: Path, tool: Callable[[str, str], None]) -> Path:
    """A host that does as WELL tells."""
    tool("systemctl", SYSTEMCTL)
    tool("timedatectl", 'test "$2" = --property=NTPSynchronized && echo yes')
    tool("nft", 'test "$*" = "list ruleset" && echo "table inet firewalld {}"')
    for name, text in {
        "proc/mounts": "/dev/sda2 / xfs rw,relatime 0 0\nserver:/srv /srv nfs4 rw 0 0\n"
        "/dev/sr0 /media iso9660 ro 0 0\nproc /proc proc rw 0 0\n",
        "sys/class/net/eth0/operstate": "up",
        "sys/class/net/eth1/operstate": "up",
        "sys/class/net/lo/operstate": "unknown",
        "sys/fs/selinux/enforce": "1",
        "sys/kernel/kexec_crash_loaded": "1",
    }.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return tmp_path / "root"


def test_a_host_is_looked_at_and_compared(well: Path, step: Step) -> None:
    look = ("health", f"--sysroot={well}")
    code, answer = step(*look)
    assert (code, from_record(answer["health"])) == (0, WELL)

    before = f"--before={json.dumps(answer['health'])}"
    assert step(*look, before)[0] == 0

    (well / "sys/class/net/eth1/operstate").write_text("down\n")
    (well / "sys/fs/selinux/enforce").write_text("0\n")
    code, answer = step(*look, before)
    assert code == 5
    assert answer["error"] == ("the host does worse than before: link down: eth1, SELinux does not enforce")
    assert answer["worse"] == ["link down: eth1", "SELinux does not enforce"]
    assert "link down" not in step(*look, before, "--ignore=eth1")[1]["error"]


def test_a_clock_has_the_time_to_find_its_servers(
    well: Path, tool: Callable[[str, str], None], step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = f"--before={json.dumps(asdict(WELL))}"
    tool("timedatectl", f"test -e {well}/asked && echo yes || : > {well}/asked")
    assert step("health", f"--sysroot={well}", before)[0] == 0

    monkeypatch.setattr(health, "CLOCK_S", 0)
    tool("timedatectl", "echo no")
    code, answer = step("health", f"--sysroot={well}", before)
    assert code == 5
    assert answer["error"] == "the host does worse than before: the clock follows no time server"


def test_a_host_without_any_of_it(tmp_path: Path, tool: Callable[[str, str], None], step: Step) -> None:
    tool("systemctl", "exit 1")
    tool("timedatectl", "exit 1")
    code, answer = step("health", f"--sysroot={tmp_path}")
    assert code == 0
    assert not any(answer["health"].values())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"failed": ("new.service", "old.service")}, ["failed: new.service"]),
        ({"running": ("sshd.service",)}, ["not running: firewalld.service"]),
        (
            {"running": ("sshd.service",), "failed": ("firewalld.service", "old.service")},
            ["failed: firewalld.service"],
        ),
        ({"writable": ("/",)}, ["not mounted: /srv"]),
        ({"writable": ("/",), "read_only": ("/media", "/srv")}, ["mounted read-only: /srv"]),
        ({"links": ("eth0", "eth2")}, ["link down: eth1"]),
        ({"enforces": False}, ["SELinux does not enforce"]),
        ({"filters": False}, ["no firewall rules"]),
        ({"dumps": False}, ["a crash leaves no dump"]),
        ({"synchronized": False}, ["the clock follows no time server"]),
        ({"failed": (), "running": (*WELL.running, "more.service")}, []),
    ],
)
def test_what_is_worse(change: dict[str, object], told: list[str]) -> None:
    assert list(differences(WELL, replace(WELL, **change))) == told  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ignored", "change"),
    [
        ("kdump", {"dumps": False, "failed": ("kdump.service", "old.service")}),
        ("kdump", {"dumps": False, "failed": ("kdump-tools.service", "old.service")}),
        ("selinux", {"enforces": False}),
        ("firewall", {"filters": False}),
    ],
)
def test_what_a_kernel_may_lack(ignored: str, change: dict[str, object]) -> None:
    now = replace(WELL, **change)  # type: ignore[arg-type]
    assert list(differences(WELL, now))
    assert not list(differences(WELL, now, [ignored]))


names = st.lists(st.sampled_from("abc"), unique=True).map(tuple)
healths = st.builds(Health, *[names] * 5, *[st.booleans()] * 4)


@given(healths, healths)
def test_a_host_is_never_worse_than_itself(one: Health, other: Health) -> None:
    """And a record of it is the same health."""
    assert not list(differences(one, one))
    assert from_record(json.loads(json.dumps(asdict(other)))) == other
