"""Files of JSON lines, as far as they are whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotplug_host.errors import ExitCode, ToolError

#: Bytes. The longest line there can be, of 8192 CPUs each named by itself, is a tenth of it.
MAX_LINE = 1 << 20


def whole_lines(path: Path, notices: list[str], what: str, hint: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, from 1; a last one that is cut short becomes a notice.

    WHAT is what a line holds, HINT what to do about the ToolError (INPUT) where there can be none of it.
    """
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise _error(f"{path}:{number}: longer than {MAX_LINE} bytes, so not {what}", hint)
                if not line.endswith(b"\n"):
                    notices.append(f"{path}:{number}: the last line is cut short and was left out")
                    break
                yield number, line.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"line {number} is not text"
        raise _error(f"cannot read {path}: {reason}", hint) from error


def parse(line: str) -> dict[str, Any]:
    """Return the JSON object in a line; ValueError when there is none, or a number that JSON has not."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _error(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.INPUT)
