"""Loads of the stress test."""

from pathlib import Path

import pytest

from kernel_qualify.guest import loads


@pytest.mark.parametrize(
    ("threads", "cpus", "queues"),
    [(8, 16, 4), (4, 16, 8), (2, 8, 8), (1, 4, 4)],
)
def test_a_core_that_keeps_one_thread_takes_all_cpus_from_a_queue(
    threads: int, cpus: int, queues: int
) -> None:
    assert loads.queues_of(threads, cpus) == queues


def test_a_kernel_without_null_blk_gets_no_disk_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge reports the load that is missing."""
    monkeypatch.setattr(loads, "CONFIGFS", tmp_path / "absent")
    loads.make_queued_disk(4)
    assert list(tmp_path.iterdir()) == []
