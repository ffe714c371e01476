"""Time SMT switches and single hotplug operations, count what they cost the whole machine, and report."""

from __future__ import annotations

import argparse
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from kernel_qualify.guest import loads, machine, programs
from kernel_qualify.guest.machine import CPUS, EXPEDITED, Calls, record, say, switch, write

COSTS = (
    "synchronize_rcu",
    machine.RENDEZVOUS,
    "partition_sched_domains_locked",
    "partition_sched_domains",
    "update_cpus_node",
)
PIECED = 5
"""So many switches at most tell how long the pieces of their chunks take."""
KERNEL = "kernel"
"""What is loaded as the crash kernel: its name among the files that the controller has put into the guest."""


@contextmanager
def expedited() -> Iterator[None]:
    """Grace periods in a hurry, as the series posted upstream has them during a switch."""
    write(EXPEDITED, 1)
    try:
        yield
    finally:
        write(EXPEDITED, 0)


@contextmanager
def crash_kernel() -> Iterator[None]:
    """With a crash kernel loaded, which has to know the CPUs."""
    subprocess.run(["kexec", "-p", "-s", str(programs.FOLDER / KERNEL), "--append=maxcpus=1"], check=True)
    try:
        yield
    finally:
        subprocess.run(["kexec", "-p", "-u"], check=True)


class Reader(threading.Thread):
    """Takes the hotplug lock for reading all the time, and remembers the longest wait.

    By membarrier(), which holds it for no longer than it takes to look at each CPU.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._step = loads.membarrier()
        self._done = threading.Event()
        self.longest = 0.0
        self.calls = 0

    def run(self) -> None:
        """Take the lock until stop()."""
        while not self._done.is_set():
            begin = time.monotonic()
            self._step()
            self.longest = max(self.longest, time.monotonic() - begin)
            self.calls += 1
            time.sleep(0.001)

    def stop(self) -> None:
        """End it."""
        self._done.set()
        self.join()


def by_control(value: str) -> float:
    """Switch SMT; return the seconds it took."""
    facts = switch(value)
    if facts["error"]:
        raise OSError(facts["error"], f"smt/control {value}")
    return float(facts["seconds"])


def one_by_one(value: str) -> float:
    """Switch by the CPUs' own files, as powerpc-utils does without smt/control; return the seconds."""
    begin = time.monotonic()
    for cpu in VICTIMS:
        error = write(CPUS / f"cpu{cpu}/online", int(value == "on"))
        if error:
            raise OSError(error, f"cpu{cpu}/online")
    return time.monotonic() - begin


def pieces_of(
    path: Callable[[str], float], switches: int
) -> tuple[dict[str, list[dict[str, float]]], list[str]]:
    """Return what the pieces of the chunks take in switches that are not timed, and why CPUs went one by one.

    Emptying the trace in between keeps all CPUs busy for a moment, and only the patched kernel has one.
    """
    found: dict[str, list[dict[str, float]]] = {"off": [], "on": []}
    if not switches:
        return found, []
    stopwatch = machine.Pieces()
    for _ in range(switches):
        for value, pieces in found.items():
            path(value)
            pieces.append(stopwatch.taken())
    stopwatch.stop()
    return found, stopwatch.serially


def measure(mode: str, iterations: int, reader: bool) -> None:
    """Time off and on, then once more count what they cost, and have a reader wait for them.

    Without iterations, the time of that switch is taken.
    """
    path = one_by_one if mode in ONE_BY_ONE else by_control
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(iterations):
        for value, times in seconds.items():
            times.append(round(path(value), 4))
            say(f"{mode} {value} {times[-1]:.3f} s")
    chunked = path is by_control and machine.CHUNK_EVENT.exists()
    pieces, serially = pieces_of(path, min(iterations, PIECED) if chunked else 0)
    for value, times in seconds.items():
        facts: dict[str, object] = {"mode": mode, "to": value, "serially": serially}
        waiting = Reader() if reader else None
        if waiting:
            waiting.start()
            time.sleep(0.1)
        calls = Calls(*COSTS)
        counted = round(path(value), 4)
        facts.update(counts=calls.counts(), seconds=times or [counted], pieces=pieces[value])
        calls.stop()
        if waiting:
            waiting.stop()
            facts.update(reader_wait=round(waiting.longest, 4), reader_calls=waiting.calls)
        record("speed", **facts)


def main() -> None:
    """All modes that were asked for, each with as many iterations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--modes", nargs="+", choices=["plain", *ONE_BY_ONE, *CONDITIONS], required=True)
    parser.add_argument("--chunk", type=int, help="CPUs of a chunk, where the kernel has chunks")
    options = parser.parse_args()
    machine.mount_tracing()
    if machine.online() != machine.present():
        machine.all_on()
    if options.chunk and machine.CHUNK.exists():
        write(machine.CHUNK, options.chunk)
    VICTIMS[:] = machine.secondaries()
    chunk = machine.read(machine.CHUNK) if machine.CHUNK.exists() else None
    record("machine", **machine.settings(), present=machine.present(), victims=VICTIMS, chunk=chunk)
    if options.iterations:  # the first switch finds caches cold
        by_control("off")
        by_control("on")
    for mode in options.modes:
        with CONDITIONS.get(mode, nullcontext)():
            measure(mode, options.iterations, reader=mode == "plain")
    record("end", online=machine.online(), clocksource=machine.clocksource())


VICTIMS: list[int] = []
ONE_BY_ONE = ("legacy", "legacy-expedited")
CONDITIONS = {"expedited": expedited, "crash": crash_kernel, "legacy-expedited": expedited}

if __name__ == "__main__":
    main()
