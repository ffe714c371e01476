"""Loads of the stress test."""

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
