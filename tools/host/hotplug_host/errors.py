"""Exit codes and the one error type of this project's commands.

Standard library only: this module travels to the measured host inside the zipapp.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """What a command's exit code means; documented in docs/reference/exit-codes.md."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    ENVIRONMENT = 3
    INPUT = 4
    OPERATION = 5
    GUEST = 6
    TIMEOUT = 7
    REGRESSION = 8
    NO_BASELINE = 9
    DISK_FULL = 10
    INTERRUPTED = 130
    TERMINATED = 143


class ToolError(Exception):
    """A foreseeable fault: what is wrong, what to do next, and the exit code it ends with."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        code: ExitCode = ExitCode.ENVIRONMENT,
        answer: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.answer = dict(answer or {})
        """What a program that asked is told beside the message."""

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message
