"""Time SMT switches and single hotplug operations, count what they cost the whole machine, and report."""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import loads
import machine
from machine import CPUS, Calls, record, say, switch, write

EXPEDITED = Path("/sys/kernel/rcu_expedited")
COSTS = ("synchronize_rcu", machine.RENDEZVOUS, "partition_sched_domains_locked")


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
    """The same by the CPUs' own files, as powerpc-utils does without smt/control; return the seconds."""
    begin = time.monotonic()
    for cpu in VICTIMS:
        error = write(CPUS / f"cpu{cpu}/online", int(value == "on"))
        if error:
            raise OSError(error, f"cpu{cpu}/online")
    return time.monotonic() - begin


def measure(mode: str, iterations: int, reader: bool) -> None:
    """Time off and on, then count them once, then have a reader wait for them once."""
    path = one_by_one if mode == "legacy" else by_control
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(iterations):
        for value, times in seconds.items():
            times.append(round(path(value), 4))
            say(f"{mode} {value} {times[-1]:.3f} s")
    for value, times in seconds.items():
        calls = Calls(*COSTS)
        path(value)
        counts = calls.counts()
        calls.stop()
        facts: dict[str, object] = {"mode": mode, "to": value, "seconds": times, "counts": counts}
        if reader:
            waiting = Reader()
            waiting.start()
            time.sleep(0.1)
            write(machine.CONTROL, "on" if value == "off" else "off")
            waiting.longest = 0.0
            path(value)
            waiting.stop()
            facts.update(reader_wait=round(waiting.longest, 4), reader_calls=waiting.calls)
        record("speed", **facts)


def main() -> None:
    """All modes that were asked for, each with as many iterations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--modes", nargs="+", choices=["plain", "expedited", "legacy"], required=True)
    options = parser.parse_args()
    machine.all_on()
    VICTIMS[:] = machine.secondaries()
    chunk = machine.read(machine.CHUNK) if machine.CHUNK.exists() else None
    record("machine", **machine.settings(), present=machine.present(), victims=VICTIMS, chunk=chunk)
    by_control("off")
    by_control("on")
    for mode in options.modes:
        if mode == "expedited":
            write(EXPEDITED, 1)
        try:
            measure(mode, options.iterations, reader=mode == "plain")
        finally:
            if mode == "expedited":
                write(EXPEDITED, 0)
    record("end", online=machine.online())


VICTIMS: list[int] = []

if __name__ == "__main__":
    main()
