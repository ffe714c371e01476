"""What the kernel's log says about clocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotplug_host.sysfs import Sysfs

KMSG = "/dev/kmsg"
#: The longest that one record can be (CONSOLE_EXT_LOG_MAX), and more than any log buffer holds.
RECORD_BYTES, MOST_BYTES = 8192, 1 << 26
#: How many messages are kept; what came of them is told of all.
MOST_MESSAGES = 50
TSC = "tsc"
UNSTABLE, WARP, SKEW, DELAY, REFUSED, FIRMWARE = "unstable", "warp", "skew", "delay", "refused", "firmware"

_RECORD = re.compile(r"\d+,(?P<sequence>\d+),(?P<microseconds>\d+)[^;]*;(?P<text>.*)")
#: What a message is, the first that fits; a group is the clocksource's name. Of 4.x to 7.x kernels.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (UNSTABLE, r"marking (?:clocksource )?'?([\w-]+)'? (?:as )?unstable"),
        (UNSTABLE, r"clocksource '?([\w-]+)'? unstable"),
        (UNSTABLE, r"(tsc) found unstable"),
        (UNSTABLE, r"\bclocks? unsynchronized|sched_clock: marking unstable"),
        (WARP, r"(tsc) warp|(tsc) synchronization (?!.*passed)"),
        (FIRMWARE, r"firmware bug\]: (tsc)\b|(tsc) adjust"),
        (REFUSED, r"override clocksource ([\w-]+) is"),
        (DELAY, r"test skipped|skipping watchdog|read(?:-?back)? (?:delay|timed out)|retried \d+ times"),
        (SKEW, r"\bskew|timekeeping watchdog|cpus? .*(?:ahead of|behind) cpu|'[\w-]+' (?:wd|cs)_nsec"),
    )
)
_CLOCKS = re.compile(r"clock|tsc|hpet|watchdog", re.IGNORECASE)
#: TSC under another name, until the kernel has calibrated it.
_EARLY = "tsc-early"


@dataclass(frozen=True)
class Message:
    """One that is about a clock: seconds since boot, what it is, and of which clocksource if it says so."""

    seconds: float
    kind: str
    clocksource: str | None
    text: str


@dataclass(frozen=True)
class ClockLog:
    """The messages about clocks, the first ones of many, and the clocksources found unstable.

    `complete` is whether the log still reaches back to the boot; `readable` whether it could be read at all.
    """

    readable: bool
    complete: bool
    messages: tuple[Message, ...]
    unstable: tuple[str, ...]


def read_lines(fs: Sysfs) -> list[str] | None:
    """Return the lines of the kernel's log, as /dev/kmsg has them; None where it cannot be read."""
    try:
        return _read(fs).splitlines()
    except OSError:
        return None


def parse(lines: Sequence[str] | None) -> ClockLog:
    """Return what the log's lines (those of `read_lines`) say about clocks."""
    if lines is None:
        return ClockLog(False, False, (), ())
    records = [match for line in lines if (match := _RECORD.fullmatch(line))]
    found = tuple(_messages(records))
    unstable = dict.fromkeys(
        message.clocksource for message in found if message.kind in (UNSTABLE, WARP) and message.clocksource
    )
    complete = bool(records) and int(records[0]["sequence"]) == 0
    return ClockLog(True, complete, found[:MOST_MESSAGES], tuple(unstable))


def hypervisor(lines: Sequence[str]) -> str | None:
    """Return the hypervisor that the kernel named when it booted."""
    for line in lines:
        _, found, name = line.partition(";Hypervisor detected: ")
        if found:
            return name.strip()
    return None


def _messages(records: Sequence[re.Match[str]]) -> Iterator[Message]:
    for record in records:
        text = record["text"].strip()
        # Most lines of a log are about something else, and one expression tells.
        if _CLOCKS.search(text) and (kind := _kind(text)):
            yield Message(int(record["microseconds"]) / 1e6, *kind, text)


def _kind(text: str) -> tuple[str, str | None] | None:
    for kind, pattern in _KINDS:
        match = pattern.search(text)
        if match:
            name = next((group.lower() for group in match.groups() if group), None)
            return kind, TSC if name == _EARLY else name
    return None


def _read(fs: Sysfs) -> str:
    """Return the log as it is now; OSError when it cannot be read."""
    descriptor = os.open(fs.path(KMSG), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    content = bytearray()
    try:
        while len(content) < MOST_BYTES:
            try:
                chunk = os.read(descriptor, RECORD_BYTES)
            except BrokenPipeError:
                continue  # the oldest records went while this was reading: it goes on with those there are
            except BlockingIOError:
                break
            if not chunk:
                break
            content += chunk
    finally:
        os.close(descriptor)
    return content.decode(errors="replace")
