"""Calling clock-probe, the program with the loops, and reading what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest

#: Its exit codes (probe.h).
USAGE, CPU, REFERENCE = 2, 3, 4
#: Seconds between two progress reports.
TICK_S = 1.0
Line = dict[str, Any]


class CpuGoneError(ToolError):
    """A CPU of the run cannot be run on any more."""


class StoppedError(Exception):
    """A signal asked the tool to end."""


def stopped(stop: StopRequest, kept: str) -> ToolError:
    """Return the fault that a signal ends the tool with."""
    return ToolError(f"stopped by {stop.first.name if stop.first else 'a signal'}", kept, stop.exit_code)


class Probe:
    """The program. A signal ends it at once: it changes nothing that would have to be put back."""

    def __init__(self, program: str, stop: StopRequest, descriptors: Sequence[int] = ()) -> None:
        self._program = program
        self._stop = stop
        self._descriptors = tuple(descriptors)

    def run(
        self, arguments: Sequence[str], timeout_s: float, on_tick: Callable[[], None] | None = None
    ) -> list[Line]:
        """Return the lines it prints; it is given TIMEOUT_S seconds, and ON_TICK is called once a second.

        ToolError when it fails (CpuGoneError when for want of a CPU), StoppedError when a signal came.
        """
        with tempfile.TemporaryFile() as errors:
            process = self._start(arguments, errors.fileno())
            try:
                output = self._read(process, timeout_s, on_tick)
            finally:
                process.kill()
                status = process.wait()
                if process.stdout is not None:
                    process.stdout.close()
            errors.seek(0)
            said = "; ".join(errors.read().decode(errors="replace").split("\n")).strip("; ")
        _check(status, said)
        return _parse(output)

    def one(
        self, arguments: Sequence[str], timeout_s: float, on_tick: Callable[[], None] | None = None
    ) -> Line:
        """Return the one line that it prints; else as `run`."""
        lines = self.run(arguments, timeout_s, on_tick)
        if len(lines) != 1:
            raise _foreign()
        return lines[0]

    def _start(self, arguments: Sequence[str], errors: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [self._program, *arguments, f"--parent={os.getpid()}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                pass_fds=self._descriptors,
            )
        except OSError as error:
            raise ToolError(
                f"clock-probe does not run on this machine ({platform.machine()}): {error.strerror}",
                "use the bundle that was made for it, or name the program with --probe",
                ExitCode.ENVIRONMENT,
            ) from error

    def _read(
        self, process: subprocess.Popen[bytes], timeout_s: float, on_tick: Callable[[], None] | None
    ) -> bytes:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        pipe = process.stdout.fileno()
        output, deadline = bytearray(), time.monotonic() + timeout_s
        next_tick = time.monotonic() + TICK_S
        while True:
            if self._stop.requested:
                raise StoppedError
            now = time.monotonic()
            if now >= deadline:
                raise ToolError(
                    f"a measurement did not finish within {timeout_s:g} s",
                    "raise --timeout",
                    ExitCode.TIMEOUT,
                )
            wait = min(deadline, next_tick) - now
            ready = select.select([pipe, self._stop.fileno()], [], [], max(wait, 0.0))[0]
            if pipe in ready:
                chunk = os.read(pipe, 1 << 16)
                if not chunk:
                    # One that stays without an output is not the probe, and is killed.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(TICK_S)
                    return bytes(output)
                output += chunk
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + TICK_S
                if on_tick is not None:
                    on_tick()


def _parse(output: bytes) -> list[Line]:
    try:
        lines = [json.loads(line) for line in output.splitlines()]
    except ValueError:
        lines = [None]
    if not all(isinstance(line, dict) for line in lines):
        raise _foreign()
    return lines


def _foreign() -> ToolError:
    return ToolError(
        "clock-probe is another program, or of another version",
        "use the one that came with this",
        ExitCode.INPUT,
    )


def _check(status: int, said: str) -> None:
    """ToolError unless the probe ended well."""
    if status == 0:
        return
    if status == CPU:
        raise CpuGoneError(
            said, "what was measured before is kept; run again on the CPUs that stay", ExitCode.OPERATION
        )
    if status == REFERENCE:
        raise ToolError(said, "name another --reference, or run it with sudo", ExitCode.ENVIRONMENT)
    if status < 0:
        how = f"was killed by {signal.Signals(-status).name}"
        raise ToolError(f"clock-probe {how}", "look at the kernel log", ExitCode.OPERATION)
    if status == USAGE:
        raise _foreign()
    raise ToolError(f"clock-probe failed: {said or 'it does not say why'}", "", ExitCode.ENVIRONMENT)


@contextlib.contextmanager
def opened(content: bytes, stop: StopRequest) -> Iterator[Probe]:
    """Give a program that is part of this bundle, run from memory: nothing is left on the host, ever."""
    try:
        descriptor = os.memfd_create("clock-probe")
    except OSError as error:
        raise ToolError(
            f"cannot run clock-probe from memory: {error.strerror}",
            "take it out of the bundle (it is a zip file) and name it with --probe",
            ExitCode.ENVIRONMENT,
        ) from error
    try:
        left = content
        while left:
            left = left[os.write(descriptor, left) :]
        yield Probe(f"/proc/self/fd/{descriptor}", stop, [descriptor])
    finally:
        os.close(descriptor)


def named(path: Path, stop: StopRequest) -> Probe:
    """Return the program at PATH; ToolError (USAGE) when there is none."""
    if not path.is_file():
        raise ToolError(f"--probe {path}: no such file", "name the program", ExitCode.USAGE)
    return Probe(str(path.resolve()), stop)
