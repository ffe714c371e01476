"""Recording one transition with trace-cmd, into buffers of a size that is known beforehand.

The transition is recorded into the kernel's own buffers (`trace-cmd start`), and read from them when it is
over (`trace-cmd extract`). `trace-cmd record` would run one reading process per CPU meanwhile, which are
moved away from each CPU that goes, compete for those that stay, and write to the disk. A CPU's buffer
outlives the CPU's going offline. So memory and file have a limit of their own: the buffers' size times
the number of CPUs. What does not fit is lost, and the kernel counts it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hotplug_host.child import Watch, run_command
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing import tracing
from hotplug_host.timing.counters import TRACING_DIRS, find_tracing
from hotplug_host.timing.eventtrace import EventTrace, lost_below
from hotplug_host.timing.tracing import GRAPH, MODES, NEEDS, OFFCPU, STATE_EVENTS, STATES

INSTANCE = "hotplug-timer-trace"
#: Buffers of all CPUs together, and of one, unless --trace-buffer says otherwise. In KiB.
TOTAL_KB, MOST_KB, LEAST_KB = 512 * 1024, 8192, 64
#: What a trace.dat holds beside the buffers: the formats of all events, and the kernel's symbols.
HEADER_KB = 32 * 1024
#: trace-cmd starts and stops in moments, and reads gigabytes in minutes.
TIMEOUT_S = 600.0
#: The contents of these where no trace runs. The function graph has no buffer of its own in all kernels.
UNUSED = {
    "current_tracer": ("nop",),
    "set_event": ("",),
    "set_ftrace_pid": ("", "no pid"),
    "set_graph_function": ("", "#### all functions enabled ####"),
    "max_graph_depth": ("0",),
}
CLEARED = {"set_ftrace_pid": "", "set_graph_function": "", "max_graph_depth": "0"}


@dataclass(frozen=True)
class Trace:
    """One recording: its mode, its file, and how many events did not fit into the buffers."""

    mode: str
    file: Path
    lost: int


class Recorder:
    """Records transitions on one host. Make it with `prepare_recorder`."""

    def __init__(self, fs: Sysfs, tracing_dir: str, program: str, buffer_kb: int) -> None:
        self.buffer_kb = buffer_kb
        self._fs = fs
        self._tracing = tracing_dir
        self._program = program

    @contextlib.contextmanager
    def recording(self, mode: str, writer: str, cpu: int, path: Path) -> Iterator[list[Trace]]:
        """Record what happens inside into PATH; the list has the trace once that is over.

        WRITER names the task that does the switch, CPU is the one whose function graph is recorded.
        ToolError (ENVIRONMENT) when recording fails; tracing is off again in every case.
        """
        traces: list[Trace] = []
        buffer = () if mode == GRAPH else ("-B", INSTANCE)
        saved = self._buffer_size() if mode == GRAPH else None
        try:
            self._call("start", *buffer, "-b", str(self.buffer_kb), *self._arguments(mode, writer, cpu))
            yield traces
            self._call("stop", *buffer)
            lost = self._losses(mode)
            self._call("extract", *buffer, "-o", str(path.resolve()))
            traces.append(Trace(mode, path, lost))
        finally:
            self._reset(mode, saved)

    def clear(self) -> None:
        """Remove the buffer that a run that was killed left behind."""
        if self._fs.exists(self._file(f"instances/{INSTANCE}")):
            self._call("reset", "-B", INSTANCE, "-d")

    def problem(self, mode: str) -> str | None:
        """Return what keeps a mode from working on this kernel; None when nothing does."""
        needs = NEEDS[mode]
        missing = [name for name in needs.events if not self._fs.exists(self._file(f"events/{name}"))]
        if missing:
            return f"the kernel has no events {', '.join(missing)}"
        tracers = (self._fs.read_optional(self._file("available_tracers")) or "").split()
        if needs.tracer is not None and needs.tracer not in tracers:
            return f"the kernel has no tracer {needs.tracer}"
        available = self._functions() if needs.functions else frozenset()
        missing = sorted(names[0] for names in needs.functions if available.isdisjoint(names))
        if missing:
            return f"the kernel cannot trace {', '.join(missing)}"
        return self._use() if mode == GRAPH else None

    def _use(self) -> str | None:
        for name, unused in UNUSED.items():
            text = self._fs.read_optional(self._file(name))
            if text is not None and text not in unused:
                where = self._fs.path(self._file(name))
                return f"somebody else is tracing: {where} says {text.splitlines()[0]!r}"
        return None

    def _arguments(self, mode: str, writer: str, cpu: int) -> list[str]:
        if mode == STATES:
            return tracing.states_arguments()
        if mode == OFFCPU:
            return tracing.offcpu_arguments(writer)
        if mode == GRAPH:
            return tracing.graph_arguments(self._threads(cpu))
        events = frozenset(
            name for name in tracing.IPI_EVENTS if self._fs.exists(self._file(f"events/{name}"))
        )
        return tracing.counts_arguments(self._functions(), events)

    def _threads(self, cpu: int) -> tuple[int, ...]:
        """Return the process ids of a CPU's hotplug and migration threads."""
        names = {f"cpuhp/{cpu}", f"migration/{cpu}"}
        found = tuple(
            int(path.name)
            for path in self._fs.glob("/proc", "[0-9]*")
            if self._fs.read_optional(f"/proc/{path.name}/comm") in names
        )
        if not found:
            raise _problem(f"there is no thread cpuhp/{cpu}", "leave --trace graph out")
        return found

    def _functions(self) -> frozenset[str]:
        text = self._fs.read_optional(self._file("available_filter_functions")) or ""
        return frozenset(line.split()[0] for line in text.splitlines() if line.strip())

    def _losses(self, mode: str) -> int:
        return lost_below(
            self._fs, self._file("per_cpu" if mode == GRAPH else f"instances/{INSTANCE}/per_cpu")
        )

    def _buffer_size(self) -> str | None:
        text = self._fs.read_optional(self._file("buffer_size_kb")) or ""
        # "7 (expanded: 1408)": so little until somebody traces, and that much then.
        numbers = re.findall(r"\d+", text)
        return numbers[-1] if numbers else None

    def _reset(self, mode: str, saved: str | None) -> None:
        if mode != GRAPH:
            self.clear()
            return
        self._call("reset")
        for name, text in ({**CLEARED, "buffer_size_kb": saved} if saved else CLEARED).items():
            if self._fs.exists(self._file(name)):
                try:
                    self._fs.write(self._file(name), text)
                except OSError as error:
                    where = self._fs.path(self._file(name))
                    raise _problem(
                        f"cannot put {where} back: {error.strerror}", "write it by hand"
                    ) from error

    def _call(self, *arguments: str) -> None:
        result = run_command([self._program, *arguments], Watch(TIMEOUT_S))
        if result.error is not None:
            raise _problem(f"cannot trace: {result.error}", "leave --trace out, or run that by hand")

    def _file(self, name: str) -> str:
        return f"{self._tracing}/{name}"


class TextRecorder:
    """Records hotplug callbacks as text, through tracefs alone: for switches of a few CPUs."""

    def __init__(self, fs: Sysfs) -> None:
        self._trace = EventTrace(fs, _tracing_dir(fs), INSTANCE, STATE_EVENTS)
        if not self._trace.is_available():
            raise _problem(
                "the kernel has no events " + ", ".join(STATE_EVENTS), "use a kernel that has them"
            )

    @contextlib.contextmanager
    def recording(self, mode: str, writer: str, cpu: int, path: Path) -> Iterator[list[Trace]]:
        """Record callbacks inside, at the end of PATH; otherwise as `Recorder.recording`."""
        del writer, cpu
        traces: list[Trace] = []
        try:
            self._trace.start()
            yield traces
            self._trace.pause()
            lost = self._trace.lost()
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{self._trace.text()}\n")
            traces.append(Trace(mode, path, lost))
        except OSError as error:
            raise _problem(f"cannot trace: {error}", "look who else traces, and make room") from error
        finally:
            self._trace.stop()


def prepare_recorder(
    fs: Sysfs, modes: tuple[str, ...], cpus: int, buffer_kb: int | None, directory: Path
) -> Recorder:
    """Return a recorder for CPUS CPUs that works here; ToolError (ENVIRONMENT) naming what is missing."""
    program = shutil.which("trace-cmd")
    if program is None:
        raise _problem("trace-cmd is not installed", "install it, or leave --trace out")
    found = _tracing_dir(fs)
    available = _meminfo_kb(fs)
    size = buffer_kb or default_buffer_kb(cpus, available)
    _check_room(size * cpus, available, directory)
    recorder = Recorder(fs, found, program, size)
    recorder.clear()
    for mode in MODES:
        problem = recorder.problem(mode) if mode in modes else None
        if problem is not None:
            raise _problem(f"--trace {mode}: {problem}", "use another mode, or a kernel that has it")
    return recorder


def default_buffer_kb(cpus: int, available_kb: int | None) -> int:
    """Return each CPU's buffer in KiB: a share of 512 MiB, or of a quarter of the memory that is free."""
    total = TOTAL_KB if available_kb is None else min(TOTAL_KB, available_kb // 4)
    return max(LEAST_KB, min(MOST_KB, total // cpus))


def _tracing_dir(fs: Sysfs) -> str:
    found = find_tracing(fs)
    if found is None:
        raise _problem(
            f"cannot trace: no tracing files in {fs.path(TRACING_DIRS[0])}",
            f"mount -t tracefs tracefs {TRACING_DIRS[0]} on a kernel with CONFIG_FTRACE",
        )
    return found


def _check_room(total_kb: int, available_kb: int | None, directory: Path) -> None:
    """Refuse buffers that would take half of the free memory, or files that the disk may not hold."""
    if available_kb is not None and total_kb > available_kb // 2:
        raise _problem(
            f"trace buffers of {total_kb // 1024} MiB are more than half of the {available_kb // 1024} MiB of"
            " memory that are free",
            "use a smaller --trace-buffer",
        )
    # trace-cmd writes one file per CPU, and puts them together then.
    wanted, free = 2 * total_kb + HEADER_KB, shutil.disk_usage(directory.resolve()).free // 1024
    if free < wanted:
        raise _problem(
            f"a trace may need {wanted // 1024} MiB in {directory}, and {free // 1024} MiB are free",
            "make room, or use a smaller --trace-buffer",
        )


def _meminfo_kb(fs: Sysfs) -> int | None:
    found = re.search(r"^MemAvailable: +(\d+) kB", fs.read_optional("/proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) if found else None


def _problem(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.ENVIRONMENT)
