"""The lines of a trace: a text file as it is or compressed, a trace.dat through `trace-cmd report`."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from hotplug_host.errors import ExitCode, ToolError

#: How a trace.dat begins.
MAGIC = b"\x17\x08\x44tracing"
#: How compressed text begins.
GZIP, XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
#: No line of a trace is as long: what has no line ends must not fill the memory.
MAX_LINE = 1 << 16
#: Times in full, and who called a traced function.
REPORT = ("report", "-t", "-O", "parent")


def is_recording(path: Path) -> bool:
    """Whether a file is a trace.dat; not so when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@contextlib.contextmanager
def open_lines(path: Path, *, whole: bool = True) -> Iterator[Iterator[bytes]]:
    """Give a trace's lines, as bytes with their line ends; WHOLE says that all of them will be read.

    ToolError (INPUT) when the file cannot be read or trace-cmd refuses it, ENVIRONMENT without trace-cmd.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
            if begin != MAGIC:
                file.seek(0)
                yield _lines(_unpacked(file, begin))
                return
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ToolError(
            f"cannot read {path}: {reason}", "name traces of `run --trace`", ExitCode.INPUT
        ) from error
    with _report(path, whole) as lines:
        yield lines


@contextlib.contextmanager
def _report(path: Path, whole: bool) -> Iterator[Iterator[bytes]]:
    program = shutil.which("trace-cmd")
    if program is None:
        raise ToolError(
            f"{path} is a trace.dat, and trace-cmd is not installed here",
            "install it (apt-get install trace-cmd), or give the text that `trace-cmd report -t -O parent`"
            " prints elsewhere",
            ExitCode.ENVIRONMENT,
        )
    with tempfile.TemporaryFile() as errors:
        # The path is absolute: no file's name is an option.
        command = [program, *REPORT, "-i", str(path.resolve())]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield _lines(process.stdout)
        except BaseException:
            process.kill()
            raise
        finally:
            process.stdout.close()
            status = process.wait()
        errors.seek(0)
        said = "; ".join(errors.read(4096).decode(errors="replace").split("\n")).strip("; ")
    if whole and status != 0:
        raise ToolError(
            f"{path}: trace-cmd report exited with status {status}: {said}", "record it again", ExitCode.INPUT
        )


def _unpacked(file: IO[bytes], begin: bytes) -> IO[bytes]:
    if begin.startswith(GZIP):
        return cast("IO[bytes]", gzip.open(file))
    return lzma.open(file) if begin.startswith(XZ) else file


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    return iter(partial(file.readline, MAX_LINE), b"")
