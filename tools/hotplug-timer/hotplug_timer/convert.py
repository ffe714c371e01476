"""Writing result files of earlier versions as result/3."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.reader import Run, checked_lines


def convert(arguments: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    """Write the files' records as result/3; ToolError when one is no result file, or an output exists."""
    runs: dict[str, Run] = {}
    notices: list[str] = []
    if arguments.output_dir is None and arguments.output is None:
        for line in _lines(arguments.files, runs, notices):
            out.write(line)
    elif arguments.output is not None:
        _write(arguments.output, _lines(arguments.files, runs, notices))
        out.write(f"{arguments.output}\n")
    else:
        for path, output in _outputs(arguments.files, arguments.output_dir).items():
            _write(output, _lines([path], runs, notices))
            out.write(f"{output}\n")
    for notice in notices:
        err.write(f"hotplug-timer: note: {notice}\n")


def _lines(paths: Iterable[Path], runs: dict[str, Run], notices: list[str]) -> Iterator[str]:
    for path in paths:
        for line in checked_lines(path, runs, notices):
            yield json.dumps(line.record, separators=(",", ":")) + "\n"


def _outputs(paths: Iterable[Path], directory: Path) -> dict[Path, Path]:
    """Return where each file is written; ToolError (USAGE) when that is not free for all of them."""
    outputs: dict[Path, Path] = {}
    for path in paths:
        output = directory / path.name
        if output in outputs.values():
            raise ToolError(
                f"two of the files are called {path.name}", "convert them one by one, with -o", ExitCode.USAGE
            )
        _check_free(output)
        outputs[path] = output
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _environment(directory, error) from error
    return outputs


def _check_free(output: Path) -> None:
    if output.exists():
        raise ToolError(f"{output} exists", "name another output, or move it away", ExitCode.USAGE)


def _write(output: Path, lines: Iterator[str]) -> None:
    """Write a file that is whole as soon as it is there, and that replaces none."""
    _check_free(output)
    part = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        # Unlike a renaming, this fails where somebody else has just made the file.
        os.link(part, output)
    except FileExistsError:
        raise ToolError(f"{output} exists", "name another output", ExitCode.USAGE) from None
    except OSError as error:
        raise _environment(output, error) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _environment(path: Path, error: OSError) -> ToolError:
    return ToolError(
        f"cannot write {path}: {error.strerror}", "make room, or name another output", ExitCode.ENVIRONMENT
    )
