"""How every program of this project starts and ends: one line for a foreseeable fault, and its exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import select
import sys
from collections.abc import Callable
from typing import NoReturn

from hotplug_host import termination
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable

FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = "standard output is closed; give the program one, or discard what it prints with >/dev/null"


class Parser(argparse.ArgumentParser):
    """argparse, with this project's one-line error format."""

    def error(self, message: str) -> NoReturn:
        """Raise ToolError (USAGE) with the message."""
        raise ToolError(message, f"see '{self.prog} --help'", ExitCode.USAGE)


def guarded(program: str, work: Callable[[], int | None]) -> int:
    """Run WORK, a program from its command line on; return the exit code, OK where WORK returns None.

    Foreseeable faults end in one line on standard error. A reader that closes the pipe of standard output
    ends the program quietly. A full disk has an exit code of its own, also where the last write meets it.
    """
    closed = _occupy_closed_streams()
    with termination.installed():
        try:
            return _flushed(work)
        except ToolError as error:
            return _complain(program, str(error), error.code)
        except KeyboardInterrupt:
            return _complain(program, "interrupted; it ended what it had started", ExitCode.INTERRUPTED)
        except termination.Terminated:
            return _complain(program, "terminated; it ended what it had started", ExitCode.TERMINATED)
        except OSError as error:
            return _refused(program, error, CLOSED if closed and error.errno == errno.EBADF else "")
        finally:
            _discard_unwritten()


def _flushed(work: Callable[[], int | None]) -> int:
    """Run WORK and write out what it printed, so that a fault of the last write is a fault of the work."""
    try:
        code = work() or ExitCode.OK
    except SystemExit as ending:  # argparse ends --help and --version so
        if isinstance(ending.__context__, BrokenPipeError):  # and rich ends what prints into a closed pipe
            return ExitCode.OK
        if not isinstance(ending.code, (int, type(None))):
            raise
        code = ending.code or ExitCode.OK
    try:
        sys.stdout.flush()
    except OSError as error:
        error.filename = error.filename or "standard output"
        raise
    return int(code)


def _complain(program: str, message: str, code: ExitCode) -> int:
    with contextlib.suppress(OSError):  # the terminal is gone; the exit code still tells
        sys.stderr.write(f"{program}: error: {printable(' '.join(message.split()))}\n")
        sys.stderr.flush()
    return int(code)


def _refused(program: str, error: OSError, message: str) -> int:
    """Report what the operating system refused, or MESSAGE in its place; a full disk has an own next step."""
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        return ExitCode.OK
    code, hint = ExitCode.ENVIRONMENT, "check the path, its permissions and the file system"
    if error.errno in FULL:
        code, hint = (
            ExitCode.DISK_FULL,
            "free some space, write elsewhere, or move the caches with XDG_CACHE_HOME",
        )
    where = f"{error.filename}: " if error.filename else ""
    return _complain(program, message or f"{where}{error.strerror or error}; {hint}", code)


def _reader_is_gone() -> bool:
    """Return whether it was the program's own output that broke, not a pipe to one that it had started."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(stream.fileno(), 0)
            if poll.poll(0):
                return True
    return False


def _occupy_closed_streams() -> bool:
    """Give a program that was started with a closed stream (`>&-`) one; return whether it had no output.

    No file that the program opens may take the number of a standard stream: what it starts would write there.
    Writing to standard output fails with EBADF, as it does in a program that was given none.
    """
    for number, access in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, access), True)  # takes the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        return True
    return False


def _discard_unwritten() -> None:
    """Drop what standard output could not take, or Python complains about it once more at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
