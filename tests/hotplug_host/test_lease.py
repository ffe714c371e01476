"""Whether the run that holds a host is alive."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host import lease
from hotplug_host.agent import command
from hotplug_host.agent.run_lock import acquire, release
from hotplug_host.errors import ToolError
from hotplug_host.lease import Lease, Moment, age_of, describe_held, read_lease, renew
from hotplug_host.preflight.facts import read_facts
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.session import opened

HELD = {"owner": "root@desk", "started": "now", "token": "t", "lease": 600}
SECONDS = st.floats(0, 1e9)


class Time:
    """The clocks of a host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = Moment(1e9, "first", 5000.0)
        monkeypatch.setattr(lease, "moment", lambda: self.now)

    def goes_on(self, seconds: float, clock: float = 0) -> None:
        """Let time pass; the time of day is changed by CLOCK beside that."""
        self.now = Moment(self.now.wall + seconds + clock, self.now.boot_id, self.now.uptime + seconds)

    def boots(self, seconds: float, clock: float = 0) -> None:
        """Boot another kernel, which has run for so many SECONDS."""
        self.now = Moment(self.now.wall + seconds + clock, "second", seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


@pytest.fixture
def lock(tmp_path: Path, time: Time) -> Path:
    path = tmp_path / "staging/lock.json"
    acquire(path, HELD)
    return path


def age(lock: Path) -> float:
    found = read_lease(lock, HELD)
    assert found is not None
    return found.age


@pytest.mark.parametrize("clock", [0, -86400, 86400])
def test_within_a_boot_the_time_of_day_may_be_set(lock: Path, time: Time, clock: float) -> None:
    time.goes_on(70, clock)
    assert age(lock) == 70


@pytest.mark.parametrize(("clock", "expected"), [(0, 30), (-86400, 30), (3600, 3630)])
def test_over_a_kexec_the_sign_is_at_least_as_old_as_the_boot(
    lock: Path, time: Time, clock: float, expected: float
) -> None:
    time.boots(30, clock)
    assert age(lock) == expected


@given(*[st.builds(Moment, SECONDS, st.sampled_from(["one", "two"]), SECONDS)] * 2)
def test_an_age_is_never_negative(sign: Moment, now: Moment) -> None:
    assert age_of(sign, now) >= 0


def test_words_of_a_lease_say_whether_it_ran_out() -> None:
    assert Lease(5, 600).words() == "last sign of life 5 s ago, its lease runs out in 9 min 55 s"
    over = Lease(7800, 600)
    assert over.ran_out
    assert over.words() == "last sign of life 2 h 10 min ago, its lease ran out 2 h 00 min ago"


def test_an_expired_lease_lets_no_other_run_in(lock: Path, time: Time) -> None:
    time.goes_on(7800)
    with pytest.raises(ToolError, match="its lease ran out 2 h 00 min ago") as refused:
        acquire(lock, {**HELD, "token": "other"})
    assert refused.value.answer == {"token": "t"}
    assert json.loads(lock.read_text()) == HELD
    assert age(lock) == 7800, "the one that was refused is no sign of life"
    assert read_facts(Sysfs(lock.parent), lock.parent).holder == describe_held(lock, HELD)
    assert describe_held(lock, HELD).startswith("root@desk has been using this host since now; last sign of")


def test_only_the_run_that_has_the_host_renews(lock: Path, time: Time) -> None:
    time.goes_on(100)
    renew(lock, "another")
    assert age(lock) == 100
    renew(lock, "t")
    assert age(lock) == 0

    release(lock, "t")
    assert not lock.parent.exists()
    renew(lock, "t")
    assert not lock.parent.exists(), "what comes late leaves nothing"


def test_each_step_of_the_run_renews(lock: Path, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["run-lock", f"--lock={lock}", "--release=wrong"]
    time.goes_on(100)
    command.main(words)
    assert age(lock) == 100
    monkeypatch.setenv("HOTPLUG_RUN", f"t:{lock}")
    command.main(words)
    assert age(lock) == 0


def test_a_switch_renews_without_a_controller(
    lock: Path, time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the line that it logs twice a minute; what is there without a run renews none."""
    cpus = tmp_path / "sys/devices/system/cpu"
    (cpus / "smt").mkdir(parents=True)
    (cpus / "smt/control").write_text("on")
    (cpus / "online").write_text("0-7")
    for words, expected in (("", 31), (f"t:{lock}", 0)):
        monkeypatch.setenv("HOTPLUG_RUN", words)
        renew(lock, "t")
        time.goes_on(31)
        with (
            (tmp_path / "log").open("w") as log,
            opened(Sysfs(tmp_path), StopRequest(), log, "smt", "auto") as session,
        ):
            session.progress.begin("smt=off", 2)
            session.progress.tick(31)
        assert age(lock) == expected


@pytest.mark.parametrize(
    "sign",
    [
        "{",
        json.dumps({"token": "t", "wall": "now"}),
        json.dumps({"token": "another", "wall": 1, "boot_id": "a", "uptime": 1}),
    ],
)
def test_a_lease_that_tells_nothing_is_none(lock: Path, sign: str) -> None:
    lock.with_name("lease.json").write_text(sign)
    assert read_lease(lock, HELD) is None
    assert describe_held(lock, HELD) == "root@desk has been using this host since now"


def test_a_disk_that_is_full_ends_no_step(lock: Path) -> None:
    if os.geteuid() == 0:
        lock.with_name("lease.json").unlink()
        lock.with_name("lease.json").mkdir()
    else:
        lock.parent.chmod(0o500)
    renew(lock, "t")
    lock.parent.chmod(0o700)
    assert json.loads(lock.read_text()) == HELD


def test_the_clocks_are_those_of_the_system() -> None:
    first, second = lease.moment(), lease.moment()
    assert first.boot_id == second.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert 0 <= age_of(first, second) < 60
