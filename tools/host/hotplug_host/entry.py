"""How every program of this project starts and ends: one line for a foreseeable fault, and its exit code."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from hotplug_host import termination
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable


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
    _replace_missing_streams()
    with termination.installed():
        try:
            return _flushed(work)
        except ToolError as error:
            return _complain(program, str(error), error.code)
        except KeyboardInterrupt:
            return _complain(program, "interrupted; it ended what it had started", ExitCode.INTERRUPTED)
        except termination.Terminated:
            return _complain(program, "terminated; it ended what it had started", ExitCode.TERMINATED)
        except BrokenPipeError:
            return ExitCode.OK
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return _complain(program, _refused(error), ExitCode.DISK_FULL if full else ExitCode.ENVIRONMENT)
        finally:
            _discard_unwritten()


def _flushed(work: Callable[[], int | None]) -> int:
    """Run WORK and write out what it printed, so that a fault of the last write is a fault of the work."""
    try:
        code = work() or ExitCode.OK
    except SystemExit as ending:  # argparse ends --help and --version so
        code = ending.code if isinstance(ending.code, int) else ExitCode.OK
    sys.stdout.flush()
    return int(code)


def _complain(program: str, message: str, code: ExitCode) -> int:
    with contextlib.suppress(OSError):  # the terminal is gone; the exit code still tells
        sys.stderr.write(f"{program}: error: {printable(' '.join(message.split()))}\n")
        sys.stderr.flush()
    return int(code)


def _refused(error: OSError) -> str:
    """Describe what the operating system refused; a full disk has its own next step."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, write elsewhere, or move the caches with XDG_CACHE_HOME"
    else:
        hint = "check the path, its permissions and the file system"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; {hint}"


class _Closed(io.TextIOBase):
    """Standard output of a program that was started without one."""

    def write(self, _text: str) -> NoReturn:
        raise OSError(errno.EBADF, "closed", "standard output")


def _replace_missing_streams() -> None:
    """Give a program that was started with a closed stream (`>&-`) one that fails as a file would."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open until the end


def _discard_unwritten() -> None:
    """Drop what standard output could not take, or Python complains about it once more at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
