"""What a guest's scripts share: CPUs and SMT control, readings of the kernel, and records for the controller.

Runs inside the guest, on Python's standard library and `hotplug_host`, which the archive holds as well. Every
line on standard output is a record (a JSON object) or a line of progress. Scripts report what they saw, and
the controller judges it.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import sys
import termios
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hotplug_host import clocksource as clocksources
from hotplug_host import rcu, topology
from hotplug_host.sysfs import BULK_CHUNK, CPU_DIR, SMT_CONTROL, Sysfs
from hotplug_host.timing import bulktrace, counters

HOST = Sysfs()
CPUS = Path(CPU_DIR)
CONTROL = Path(SMT_CONTROL)
CHUNK = Path(BULK_CHUNK)
EXPEDITED = Path(rcu.RCU_EXPEDITED)
CLOCKSOURCE = Path(clocksources.CURRENT)
TRACING = Path(counters.TRACING_DIRS[0])
PROFILE = counters.PROFILE
CHUNK_EVENT = TRACING / "events" / bulktrace.EVENT
CGROUPS = Path("/sys/fs/cgroup")
RENDEZVOUS = "stop_machine_cpuslocked"
CLOCK_CHANGE = "change_clocksource"
"""Has a rendezvous of its own: an x86 kernel leaves the TSC when a busy host keeps its watchdog waiting."""
PRINTK = Path("/proc/sys/kernel/printk")
"""Its first number is the level below which messages go to the console."""
WARNINGS = 5
SETTLE_S = 0.5
FILE = "file"
PART = 2048
"""Characters of a file in one record: a console takes lines of some length only."""


def say(text: str) -> None:
    """Write a line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def record(kind: str, **facts: Any) -> None:
    """Write a record for the controller."""
    with undisturbed():
        say(json.dumps({"kind": kind, **facts}))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Where standard output is the console, keep messages below warnings from coming into a line of ours."""
    if not sys.stdout.isatty():
        yield
        return
    level = read(PRINTK).split()[0]
    write(PRINTK, WARNINGS)
    try:
        yield
    finally:
        termios.tcdrain(sys.stdout.fileno())
        write(PRINTK, level)


def hand_over(name: str, content: bytes) -> None:
    """Write a file as records, for verdicts.files()."""
    text = base64.b64encode(zlib.compress(content, 9)).decode()
    for start in range(0, len(text), PART):
        record(FILE, name=name, part=text[start : start + PART])


def mask(text: str) -> list[int]:
    """Read a mask as the kernel writes it: words of 32 bits in hexadecimal, the highest first."""
    value = int(text.replace(",", ""), 16)
    return [bit for bit in range(value.bit_length()) if value >> bit & 1]


def read(path: Path) -> str:
    """Read a file of the kernel's."""
    return path.read_text().strip()


def write(path: Path, value: object) -> int:
    """Write to a file of the kernel's in one write; return the error number, 0 for success."""
    try:
        stream = os.open(path, os.O_WRONLY)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        os.write(stream, str(value).encode())
    except OSError as error:
        return error.errno or errno.EIO
    finally:
        os.close(stream)
    return 0


def must(error: int) -> None:
    """Raise the OSError of an error number."""
    if error:
        raise OSError(error, os.strerror(error))


def online() -> list[int]:
    """Return the CPUs that are online."""
    return sorted(topology.read_online(HOST))


def present() -> list[int]:
    """Return the CPUs that exist."""
    return sorted(topology.read_present(HOST))


def cores() -> list[list[int]]:
    """Return the CPUs of each core, in thread order. Needs all CPUs to be online, but on POWER."""
    return sorted(list(core) for core in topology.read_topology(HOST).cores)


def secondaries() -> list[int]:
    """Return the CPUs that `off` takes down, in that order. Needs all CPUs to be online, but on POWER."""
    return sorted(cpu for core in cores() for cpu in core[1:])


def domains() -> dict[str, list[list[int]]] | None:
    """Return the span of each sched domain of each CPU, lowest first; None on a kernel without schedstats."""
    path = Path("/proc/schedstat")
    return spans_in(path.read_text()) if path.exists() else None


def spans_in(text: str) -> dict[str, list[list[int]]]:
    """Return the spans of the domains of each CPU, from the text of /proc/schedstat."""
    lines = [line.split() for line in text.splitlines()]
    # domain0 00ff ..., and since version 17 domain0 SMT 00ff ...
    column = 2 if int(lines[0][1]) >= 17 else 1
    spans: dict[str, list[list[int]]] = {}
    for words in lines[1:]:
        if words[0].startswith("cpu"):
            spans[words[0].removeprefix("cpu")] = []
        elif words[0].startswith("domain"):
            spans[list(spans)[-1]].append(mask(words[column]))
    return spans


class KernelLog:
    """What the kernel logs from now on."""

    def __init__(self) -> None:
        self._stream = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._stream, 0, os.SEEK_END)

    def lines(self) -> list[str]:
        """Return the messages since the last call."""
        found: list[str] = []
        while True:
            try:
                entry = os.read(self._stream, 8192).decode(errors="replace")
            except BlockingIOError:
                return found
            except BrokenPipeError:  # the ring has overtaken us
                found.append("(messages lost)")
                continue
            found.append(entry.split(";", 1)[1].split("\n", 1)[0])


def mount_tracing() -> None:
    """Have the files of ftrace."""
    if not (TRACING / "set_ftrace_filter").exists():
        os.system("mount -t tracefs none /sys/kernel/tracing")  # noqa: S605


class Pieces:
    """What the pieces of a chunk take, by the tracepoint of the series (CHUNK_EVENT)."""

    def __init__(self) -> None:
        self.serially: list[str] = []
        """Why the CPUs of a chunk went one by one, for each such chunk."""
        self.taken()
        write(CHUNK_EVENT / "enable", 1)

    def taken(self) -> dict[str, float]:
        """Seconds of each piece in all chunks since this was called last."""
        text = (TRACING / "trace").read_text()
        self.serially += bulktrace.fallbacks(text)
        with (TRACING / "trace").open("w"):  # opening it so empties it
            return pieces_in(text)

    def stop(self) -> None:
        """Trace no longer."""
        write(CHUNK_EVENT / "enable", 0)


def pieces_in(text: str) -> dict[str, float]:
    """Seconds of each piece, all chunks together, from the text of a trace."""
    sums: dict[str, int] = {}
    for chunk in re.findall(r": cpuhp_bulk_chunk: .* ns: (.*)", text):
        words = chunk.split()
        for name, ns in zip(words[::2], words[1::2], strict=True):
            sums[name] = sums.get(name, 0) + int(ns)
    return {name: ns / 1e9 for name, ns in sums.items()}


NONE = (0, 0.0)


def profiled() -> dict[str, tuple[int, float]]:
    """How often each profiled function was called, and how long it took (us), on all CPUs."""
    totals: dict[str, tuple[int, float]] = {}
    for path in (TRACING / "trace_stat").glob("function*"):
        for name, hits, took, *_ in filter(None, map(str.split, path.read_text().splitlines()[2:])):
            calls, us = totals.get(name, NONE)
            totals[name] = calls + int(hits), us + float(took)
    return totals


class Calls:
    """Counts calls of kernel functions, by ftrace's function profile; a change of clocks is no RENDEZVOUS."""

    def __init__(self, *functions: str) -> None:
        self.functions = functions
        profile = (*functions, CLOCK_CHANGE)
        mount_tracing()
        if not (TRACING / PROFILE).exists():
            sys.exit("the kernel cannot count calls: build it with CONFIG_FUNCTION_PROFILER")
        write(TRACING / PROFILE, 0)
        for function in profile:  # one write takes one
            write(TRACING / "set_ftrace_filter", function)
        write(TRACING / PROFILE, 1)
        # Switching it on makes 7.3 wait for grace periods, in a worker which may still be at it.
        time.sleep(SETTLE_S)
        self._before = dict.fromkeys(profile, 0)
        self._before = self._since()

    def counts(self) -> dict[str, int]:
        """How many there were of each since this object was made."""
        calls = self._since()
        changes = calls[CLOCK_CHANGE]
        return {name: calls[name] - (changes if name == RENDEZVOUS else 0) for name in self.functions}

    def _since(self) -> dict[str, int]:
        now = profiled()
        return {function: now.get(function, NONE)[0] - before for function, before in self._before.items()}

    def stop(self) -> None:
        """Count no longer: the profile slows down what it counts."""
        write(TRACING / PROFILE, 0)


class Rendezvous(Calls):
    """Counts the machine-wide rendezvous of stop_machine()."""

    def __init__(self) -> None:
        super().__init__(RENDEZVOUS)

    def count(self) -> int:
        """How many there were since this object was made."""
        return self.counts()[RENDEZVOUS]


def switch(value: str, counter: Rendezvous | None = None) -> dict[str, Any]:
    """Write to smt/control; return what it took and what came of it."""
    before = counter.count() if counter else 0
    begin = time.monotonic()
    error = write(CONTROL, value)
    seconds = time.monotonic() - begin
    facts: dict[str, Any] = {"to": value, "error": error, "seconds": round(seconds, 3), "online": online()}
    if counter:
        facts["rendezvous"] = counter.count() - before
    return facts


def all_on() -> None:
    """Get every CPU online, whatever a failed switch left behind."""
    write(CONTROL, "off")
    write(CONTROL, "on")
    for cpu in present():
        if cpu not in online():
            write(CPUS / f"cpu{cpu}/online", 1)


def settings() -> dict[str, str]:
    """Return what a result has to be read with: the kernel, its parameters, and its clock."""
    return {
        "release": os.uname().release,
        "command_line": read(Path("/proc/cmdline")),
        "clocksource": clocksource(),
    }


def realtime() -> bool:
    """Whether the kernel is one of PREEMPT_RT."""
    return "PREEMPT_RT" in os.uname().version.split()


def clocksource() -> str:
    """Return the clocksource in use; an x86 kernel may change it when it finds the TSC unstable."""
    return read(CLOCKSOURCE)
