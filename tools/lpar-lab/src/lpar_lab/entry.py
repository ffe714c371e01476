"""How a command line of this project ends: one line for every foreseeable fault, and its exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from hotplug_timer.errors import ExitCode, ToolError

from . import signals


class Parser(argparse.ArgumentParser):
    """argparse, with this project's one-line error format."""

    def error(self, message: str) -> NoReturn:
        """Write one line and leave with USAGE."""
        raise ToolError(message, f"see '{self.prog} --help'", ExitCode.USAGE)


def guarded(program: str, work: Callable[[], int]) -> int:
    """Run the work of a command; every foreseeable fault ends in one line and its exit code."""
    signals.install()
    try:
        return work()
    except ToolError as error:
        _complain(program, str(error))
        return error.code
    except KeyboardInterrupt:
        _complain(program, "interrupted; what it had started was ended")
        return ExitCode.INTERRUPTED
    except signals.Terminated:
        _complain(program, "terminated; what it had started was ended")
        return ExitCode.TERMINATED
    except BrokenPipeError:
        # The reader of our output has gone; Python must not complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except OSError as error:
        _complain(program, _refused(error))
        return ExitCode.ENVIRONMENT


def _complain(program: str, message: str) -> None:
    sys.stderr.write(f"{program}: error: {' '.join(message.split())}\n")


def _refused(error: OSError) -> str:
    """Say what the operating system refused; a full disk has its own next step."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space or move the cache with XDG_CACHE_HOME" if full else "check permissions and space"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; {hint}"
