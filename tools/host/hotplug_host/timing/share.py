"""How much longer work takes on one CPU while all others are busy.

A CPU that dies in a rendezvous works while all others spin. Where processors are shared, as in an LPAR of a
shared pool or in an emulator, spinning CPUs take processors away from it.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean

#: What one measurement of the work takes where nothing else runs, about (s), and how often that is measured.
ALONE_S = 0.05
REPEATED = 3
STACK_BYTES = 256 * 1024


@dataclass(frozen=True)
class Sharing:
    """How CPUs share processors: busy_slowdown(), and "dedicated" or "shared" where an LPAR tells."""

    busy_slowdown: float
    lpar_mode: str | None


def busy_slowdown(cpus: Collection[int]) -> float:
    """Return how many times longer a piece of work takes with all CPUS busy than with one; 1 or more.

    All of CPUS are busy for about that many times 50 ms, at the lowest priority. The calling thread's own
    CPUs stay as they are.
    """
    before = os.sched_getaffinity(0)
    here, *others = sorted(cpus, key=lambda cpu: cpu not in before)
    rounds = 1000
    enough = threading.Event()
    begun = threading.Barrier(len(others) + 1)

    def spin(cpu: int) -> None:
        with suppress(OSError):  # one that this cpuset does not have
            os.sched_setaffinity(0, {cpu})
        os.nice(19)
        begun.wait()
        while not enough.is_set():
            work(rounds)

    os.sched_setaffinity(0, {here})
    try:
        work(rounds)
        rounds = max(1, round(rounds * ALONE_S / min(work(rounds) for _ in range(REPEATED))))
        alone = min(work(rounds) for _ in range(REPEATED))
        threading.stack_size(STACK_BYTES)
        threads = [threading.Thread(target=spin, args=[cpu], daemon=True) for cpu in others]
        for thread in threads:
            thread.start()
        begun.wait()
        try:
            busy = fmean(work(rounds) for _ in range(REPEATED))
        finally:
            enough.set()
        for thread in threads:
            thread.join()
    finally:
        threading.stack_size(0)
        os.sched_setaffinity(0, before)
    return max(1.0, busy / alone)


def work(rounds: int) -> float:
    """Compute without memory, and without Python's lock; return how long it took, in seconds."""
    begin = time.monotonic()
    hashlib.pbkdf2_hmac("sha256", b"work", b"salt", rounds)
    return time.monotonic() - begin
