"""What tracepoints and kprobes say of one CPU's timer: what it is programmed to, and when it fires.

In a trace instance of its own, which others do not see; kprobes are in a group of their own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import Sysfs

TRACEFS = "/sys/kernel/tracing"
NAME = "clock_check"
INSTANCE = f"{TRACEFS}/instances/{NAME}"
PROBES = f"{TRACEFS}/kprobe_events"
TIMER_LIST = "/proc/timer_list"
BUFFER_KB = 4096
#: Interrupts of a CPU's own timer: by architecture, and that of a device, told from others' by its name.
DEVICE_INTERRUPT = "irq/irq_handler_entry"
INTERRUPTS = ("powerpc/timer_interrupt_entry", "irq_vectors/local_timer_entry", DEVICE_INTERRUPT)
#: What the kernel calls the interrupts of the HPET, replacing the PIT's or its own.
OF_TIMERS = 'name == "timer" || name ~ "hpet*"'
EXPIRE = "timer/hrtimer_expire_entry"
#: Devices whose ticks are those of the clocksource they may be coupled to, by kernel and series.
MAY_BE_COUPLED = ("decrementer",)
#: Returns the deadline of a coupled device as the counter will show it; what programs it may be inlined.
DEADLINE = "ktime_expiry_to_cycles"
EVENT = re.compile(
    r"^.*\[\d+\]\s+\S+\s+(?P<s>\d{1,12})\.(?P<us>\d{6}): (?P<name>\w+): (?P<text>.*)$",
    re.MULTILINE | re.ASCII,
)
FIELD = re.compile(r"(\w+)=(-?\d{1,20})\b", re.ASCII)
DEVICE = re.compile(
    r"^Per CPU device: (?P<cpu>\d{1,9})\nClock Event Device: (?P<name>.+)\n"
    r" max_delta_ns:\s+(?P<max>\d{1,20})\n"
    r" min_delta_ns:.*\n mult:\s+(?P<mult>\d{1,10})\n shift:\s+(?P<shift>\d{1,2})\n"
    r"(?: .*\n)*? set_next_event:\s*(?P<function>\S+)$",
    re.MULTILINE | re.ASCII,
)


@dataclass(frozen=True)
class Device:
    """A CPU's timer: its name, its ticks in a nanosecond of the counter, and what programs it."""

    name: str
    rate: float
    max_ns: int
    function: str


@dataclass(frozen=True)
class Event:
    """One line of the trace; `fields` are its numbers, by name."""

    time_ns: int
    name: str
    fields: dict[str, int]


def read_device(fs: Sysfs, cpu: int) -> Device:
    """Read which timer a CPU uses; ToolError when the kernel does not say."""
    for match in DEVICE.finditer(f"{fs.read(TIMER_LIST)}\n"):
        if int(match["cpu"]) == cpu:
            rate = int(match["mult"]) / (1 << int(match["shift"]))
            return Device(match["name"], rate, int(match["max"]), match["function"])
    raise ToolError(
        f"{fs.path(TIMER_LIST)} names no timer of CPU {cpu}",
        "run it as root, on a kernel that has /proc/timer_list",
        ExitCode.ENVIRONMENT,
    )


def probes(device: Device, symbols: str) -> list[str]:
    """Return the kprobes that show what DEVICE is programmed to; SYMBOLS is /proc/kallsyms."""
    wanted = [
        f"p:{NAME}/program clockevents_program_event expires=$arg2:s64",
        f"r:{NAME}/now ktime_get now=$retval:s64",
        f"p:{NAME}/ticks {device.function} ticks=$arg1:u64",
    ]
    if device.name in MAY_BE_COUPLED and re.search(rf" {DEADLINE}$", symbols, re.MULTILINE):
        wanted.append(f"r:{NAME}/deadline {DEADLINE} cycles=$retval:u64")
    return wanted


class TimerTrace:
    """The trace of one CPU's timer."""

    def __init__(self, fs: Sysfs, cpu: int) -> None:
        self._fs = fs
        self._cpu = cpu
        #: Whether it shows what is programmed: not without kprobes.
        self.programmed = False

    def start(self, device: Device) -> None:
        """Set it up, not running yet; ToolError (ENVIRONMENT) when this kernel cannot."""
        try:
            self._fs.mkdir(INSTANCE)
            for name, value in (
                ("tracing_on", "0"),
                ("trace_clock", "mono"),
                ("buffer_size_kb", str(BUFFER_KB)),
                ("tracing_cpumask", _mask(self._cpu)),
            ):
                self._fs.write(f"{INSTANCE}/{name}", value)
            interrupts = self._interrupts()
            if DEVICE_INTERRUPT in interrupts:
                self._fs.write(f"{INSTANCE}/events/{DEVICE_INTERRUPT}/filter", OF_TIMERS)
            self._enable((EXPIRE, *interrupts))
        except OSError as error:
            raise ToolError(
                f"cannot trace in {self._fs.path(INSTANCE)}: {error.strerror}",
                "run it as root, one at a time, on a kernel with tracefs",
                ExitCode.ENVIRONMENT,
            ) from error
        self.programmed = self._add_probes(device)

    def remove(self) -> list[str]:
        """Take it away again, whatever there is of it; returns what could not be, in words."""
        problems = []
        if self._fs.exists(INSTANCE):
            try:
                self._fs.rmdir(INSTANCE)
            except OSError as error:
                problems.append(f"{self._fs.path(INSTANCE)} could not be removed: {error.strerror}")
        for line in (self._fs.read_optional(PROBES) or "").splitlines():
            if f":{NAME}/" in line:
                # The name without what comes after it, such as the function
                word = line.split()[0].partition(":")[2]
                with contextlib.suppress(OSError):
                    self._fs.append(PROBES, f"-:{word}\n")
        return problems

    @contextlib.contextmanager
    def running(self) -> Iterator[list[Event]]:
        """Trace inside the block; the list has the events afterwards."""
        events: list[Event] = []
        self._fs.write(f"{INSTANCE}/trace", "")
        self._fs.write(f"{INSTANCE}/tracing_on", "1")
        try:
            yield events
        finally:
            self._fs.write(f"{INSTANCE}/tracing_on", "0")
            events += read_events(self._fs.read(f"{INSTANCE}/trace"))

    def _interrupts(self) -> tuple[str, ...]:
        return tuple(name for name in INTERRUPTS if self._fs.exists(f"{INSTANCE}/events/{name}"))

    def _add_probes(self, device: Device) -> bool:
        if not self._fs.exists(PROBES):
            return False
        try:
            for line in probes(device, self._fs.read("/proc/kallsyms")):
                self._fs.append(PROBES, f"{line}\n")
            self._enable((NAME,))
        except OSError:
            return False
        return True

    def _enable(self, names: Sequence[str]) -> None:
        for name in names:
            self._fs.write(f"{INSTANCE}/events/{name}/enable", "1")


def read_events(text: str) -> list[Event]:
    """Read a trace; lines that are no events are passed over."""
    return [
        Event(
            int(match["s"]) * 1_000_000_000 + int(match["us"]) * 1000, match["name"], _fields(match["text"])
        )
        for match in EVENT.finditer(text)
    ]


def _fields(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in FIELD.findall(text)}


def _mask(cpu: int) -> str:
    """Return the mask of one CPU as the kernel reads it: 32 bits a word."""
    words = ["00000000"] * (cpu // 32)
    return ",".join([f"{1 << cpu % 32:x}", *words])
