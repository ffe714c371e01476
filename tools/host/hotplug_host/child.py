"""Running one switch in a child process of its own session, timed and bounded.

The child survives a Ctrl-C at the terminal, so a switch is never torn half way by the key that
asks the timer to stop. Its end shows as end-of-file on a pipe: subprocess's own wait with a timeout
polls with sleeps of up to 50 ms, far too coarse for what is measured here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from hotplug_host.signals import StopRequest

#: How long a child that was sent SIGTERM may take to go.
TERMINATE_GRACE_S = 10.0


#: Seconds between two progress reports of a child.
TICK_S = 1.0


@dataclass(frozen=True)
class Watch:
    """How a child is watched: for how many seconds at most, what ends it, and who is told that it runs.

    Without STOP no signal ends it early. ON_TICK is given the seconds since the start, once a second;
    it has to be quick, since a child that ends meanwhile is only noticed afterwards. What is in
    CLOSE_IN_CHILD is no descriptor of the child's.
    """

    timeout_s: float
    stop: StopRequest | None = None
    on_tick: Callable[[float], None] | None = None
    close_in_child: tuple[int, ...] = ()


@dataclass(frozen=True)
class ChildResult:
    """What became of the child.

    `seconds` is None unless it ended by itself; `error` is None when it succeeded;
    `left_running` is its process id when it could not be ended.
    """

    seconds: float | None
    error: str | None
    timed_out: bool = False
    aborted: bool = False
    left_running: int | None = None


def run_command(command: Sequence[str], watch: Watch) -> ChildResult:
    """Run a command; the seconds are from just before its start to its end, both included."""
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as output:
        try:
            started = time.monotonic()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(write_end,),
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            os.close(read_end)
            os.close(write_end)
            return ChildResult(None, f"{command[0]} did not start: {error.strerror}")
        os.close(write_end)
        try:
            ending = _await_end(read_end, process.pid, started, watch)
            finished = time.monotonic()
        finally:
            os.close(read_end)
        if ending.left_running is not None:
            return ending
        status = process.wait()
        if ending.error is not None:
            return ending
        output.seek(0)
        text = output.read().decode(errors="replace")
    if status == 0:
        return ChildResult(finished - started, None)
    return ChildResult(finished - started, describe_failure(command, status, text))


def run_function(work: Callable[[], None], watch: Watch) -> ChildResult:
    """Run WORK in a forked child; the seconds are around WORK alone, without the fork.

    An OSError that WORK raises becomes the result's error.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(work, write_end, watch.close_in_child)
    os.close(write_end)
    try:
        ending = _await_end(read_end, pid, time.monotonic(), watch)
        payload = b""
        if ending.error is None:
            payload = ending.payload
    finally:
        os.close(read_end)
    if ending.left_running is not None:
        return ending
    os.waitpid(pid, 0)
    if ending.error is not None:
        return ending
    if not payload:
        return ChildResult(None, f"the process that did the switch (pid {pid}) was killed")
    report = json.loads(payload)
    return ChildResult(report["seconds"], report["error"])


def describe_failure(command: Sequence[str], status: int, output: str) -> str:
    """Return one line on why a command failed: its exit status and what it printed."""
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    said = "; ".join(line.strip() for line in output.splitlines() if line.strip())
    return f"{' '.join(command)} {how}: {said}" if said else f"{' '.join(command)} {how} and printed nothing"


@dataclass(frozen=True)
class _Ending(ChildResult):
    payload: bytes = b""


def _await_end(descriptor: int, pid: int, started: float, watch: Watch) -> _Ending:
    """Wait for end-of-file. The first signal waits on; a second one ends the child."""
    payload = b""
    stop = watch.stop
    watched = [descriptor] if stop is None else [descriptor, stop.fileno()]
    next_tick = started + TICK_S
    while True:
        if stop is not None and stop.count >= 2:
            return _terminate(descriptor, pid, "ended early by a second signal", aborted=True)
        now = time.monotonic()
        left = started + watch.timeout_s - now
        if left <= 0:
            return _terminate(descriptor, pid, f"did not finish within {watch.timeout_s:g} s", timed_out=True)
        until_tick = max(next_tick - now, 0.0) if watch.on_tick else 3600.0
        ready, _, _ = select.select(watched, [], [], min(left, until_tick))
        if stop is not None and stop.fileno() in ready:
            stop.drain()
            if stop.count == 1:
                stop.announce_waiting()
        if descriptor in ready:
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return _Ending(None, None, payload=payload)
            payload += chunk
        elif watch.on_tick and time.monotonic() >= next_tick:
            next_tick = time.monotonic() + TICK_S
            watch.on_tick(time.monotonic() - started)


def _terminate(
    descriptor: int, pid: int, error: str, *, timed_out: bool = False, aborted: bool = False
) -> _Ending:
    """Send SIGTERM and give it a while: a task inside the kernel's hotplug code dies only afterwards."""
    with contextlib.suppress(ProcessLookupError):  # it ended just now
        os.killpg(pid, signal.SIGTERM)
    deadline = time.monotonic() + TERMINATE_GRACE_S
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if ready and not os.read(descriptor, 65536):
            return _Ending(None, error, timed_out, aborted)
    return _Ending(None, error, timed_out, aborted, left_running=pid)


def _child(work: Callable[[], None], write_end: int, closing: tuple[int, ...]) -> NoReturn:
    """Be the child: never returns."""
    try:
        os.setsid()
        for descriptor in closing:
            os.close(descriptor)
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        error = None
        started = time.monotonic()
        try:
            work()
        except OSError as failure:
            error = f"{failure.filename}: {failure.strerror}" if failure.filename else str(failure.strerror)
        seconds = time.monotonic() - started
        os.write(write_end, json.dumps({"seconds": seconds, "error": error}).encode())
    finally:
        os._exit(0)
