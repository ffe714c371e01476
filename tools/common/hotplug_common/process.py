"""Running tools and telling processes apart: a pid alone may have been reused."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from hotplug_host.errors import ExitCode, ToolError

PR_SET_PDEATHSIG = 1
STOP_GRACE_S = 10.0
TICK_S = 1.0


@dataclass(frozen=True)
class Identity:
    """A process for good: its pid and when it started, in clock ticks since boot."""

    pid: int
    start_ticks: int


def _stat(pid: int, proc: Path) -> list[str]:
    """Read the fields of a process's stat file from its state on; none when there is no such process."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return []
    # The command name may hold blanks and parentheses: count fields after the last ')'.
    return text.rpartition(")")[2].split()


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Read a process's start time in clock ticks; None when there is no such process (or a zombie)."""
    fields = _stat(pid, proc)
    return int(fields[19]) if fields and fields[0] != "Z" else None


def threads_time_ns(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Sum up the nanoseconds that an emulator's vCPUs ran: those of its threads that QEMU names CPU.

    Without such a name, all threads but the first one count. None when there is no such process, or when a
    signal has stopped it, so that it cannot run.
    """
    try:
        folders = [folder for folder in (proc / str(pid) / "task").iterdir() if folder.name != str(pid)]
        cpus = [folder for folder in folders if (folder / "comm").read_text().startswith("CPU ")]
        ran = sum(int((folder / "schedstat").read_text().split()[0]) for folder in cpus or folders)
    except OSError:
        return None
    return None if _stat(pid, proc)[:1] in ([], ["T"]) else ran


def command_line(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Read a process's argument list; empty when there is no such process."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace") for part in raw.split(b"\0")[:-1]]


def identify_self() -> Identity:
    """Identify this very process."""
    ticks = start_ticks(os.getpid())
    return Identity(os.getpid(), ticks or 0)


def is_alive(identity: Identity, proc: Path = Path("/proc")) -> bool:
    """Whether that process, and not a later one with its pid, is running."""
    return start_ticks(identity.pid, proc) == identity.start_ticks


def stop(identity: Identity, grace: float = STOP_GRACE_S) -> None:
    """End a process: SIGTERM, then SIGKILL after `grace` seconds. Nothing happens when it is gone.

    The pidfd is taken before the start time is compared, so the process signalled is the one compared.
    """
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if not is_alive(identity):
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, number)
            if select.select([fd], [], [], grace)[0]:
                return
    finally:
        os.close(fd)


def end_child(child: subprocess.Popen[Any]) -> None:
    """End a child as stop() does, with a SIGTERM first that it can pass on to its own, and reap it."""
    stop(Identity(child.pid, start_ticks(child.pid) or 0))
    child.wait()


@dataclass(frozen=True)
class Finished:
    """How a tool ended: its exit code and what it wrote; `errors` only when it was kept apart."""

    returncode: int
    output: str
    errors: str = ""


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    merge_errors: bool = True,
    tick: Callable[[], None] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
) -> Finished:
    """Run a tool to its end and return its exit code and output, which goes to `log` when that is set.

    Standard error goes with the output unless `merge_errors` is off.

    The tool leads its own process group, which is ended when this function is left early (Ctrl-C,
    SIGTERM, timeout), so that no grandchild survives. `tick` is called every TICK_S seconds.

    Raises ToolError: ENVIRONMENT when the tool is not there, TIMEOUT after `timeout` seconds.
    """
    sink = log.open("ab") if log else contextlib.nullcontext(subprocess.PIPE)
    with sink as stdout, _standard_input(stdin) as given:
        try:
            child = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd,
                env=env,
                stdin=given,
                stdout=stdout,
                stderr=subprocess.STDOUT if merge_errors else subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise ToolError(f"'{command[0]}' is not installed", "install it and try again") from None
        try:
            output, errors = _communicate(child, tick, timeout)
        except subprocess.TimeoutExpired:
            _end_group(child)
            raise ToolError(
                f"'{command[0]}' did not finish within {timeout:g} s", code=ExitCode.TIMEOUT
            ) from None
        except BaseException:
            _end_group(child)
            raise
    text = output.decode(errors="replace") if log is None else ""
    return Finished(child.returncode, text, errors.decode(errors="replace"))


@contextlib.contextmanager
def _standard_input(content: bytes | None) -> Iterator[int | IO[bytes]]:
    """Give what a child reads: a file, and nothing where there is no content.

    Python 3.11 does not go on to write to a pipe after a communicate() that ran out of time.
    """
    if content is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _communicate(
    child: subprocess.Popen[bytes],
    tick: Callable[[], None] | None,
    timeout: float | None,
) -> tuple[bytes, bytes]:
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            output, errors = child.communicate(timeout=TICK_S)
            return output or b"", errors or b""
        except subprocess.TimeoutExpired:
            if deadline is not None and time.monotonic() >= deadline:
                raise
            if tick:
                tick()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """End the child's whole process group and reap the child."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOP_GRACE_S)
            break
    # Members may outlive their leader for a moment; they get no second chance.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def last_line(text: str) -> str:
    """Return the last line of `text` that is not blank, for a one-line message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def end_with_parent() -> None:
    """Have this process, which multiprocessing started, get SIGTERM when the one that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    parent = multiprocessing.parent_process()
    # The kernel sends no signal for a parent that had ended before.
    if parent and parent.pid != os.getppid():
        os.kill(os.getpid(), signal.SIGTERM)


class Expired(BaseException):
    """A block has taken longer than it may; no handler of Exception may take it for something else."""


@contextlib.contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Raise Expired in the block when it takes longer; for the main thread."""

    def ring(*_: object) -> NoReturn:
        raise Expired

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
