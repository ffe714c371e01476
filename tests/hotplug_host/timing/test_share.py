"""How much longer work takes with all CPUs busy."""

import os
import threading
from collections.abc import Iterator

import pytest

from hotplug_host.timing import share


@pytest.fixture
def allowed() -> Iterator[set[int]]:
    """Return the CPUs that this process may use, and give it those back for the tests that follow."""
    cpus = os.sched_getaffinity(0)
    yield cpus
    os.sched_setaffinity(0, cpus)


def test_threads_that_share_a_cpu_are_seen(allowed: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Spinners on the CPU that works take most of it: they have its own priority here.

    Other tests run on that CPU too, also while the work is timed alone: there are many more spinners.
    """
    (here, *_) = sorted(allowed)
    real = os.sched_setaffinity
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, _: real(pid, {here}))
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(share, "ALONE_S", 0.01)
    assert share.busy_slowdown(range(32)) > 3


def test_everything_is_as_before(allowed: set[int]) -> None:
    before = threading.active_count()
    assert share.busy_slowdown(allowed) >= 1
    assert os.sched_getaffinity(0) == allowed
    assert threading.active_count() == before
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == os.nice(0)


def test_a_cpu_that_the_cpuset_lacks_does_not_stop_it(
    allowed: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.sched_setaffinity

    def refuse(pid: int, cpus: set[int]) -> None:
        if not cpus <= allowed:
            raise OSError(22, "Invalid argument")
        real(pid, cpus)

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert share.busy_slowdown({*allowed, 4000}) >= 1
