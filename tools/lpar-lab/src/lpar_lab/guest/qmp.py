"""The few words of QMP the lab speaks: ask QEMU how the machine is, tell it to quit."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from .qemu import QMP_SOCKET


class QmpError(Exception):
    """QEMU's monitor did not answer, or refused."""


def execute(folder: Path, command: str, timeout: float = 3.0) -> dict[str, Any]:
    """Run one QMP command and return what it returns.

    Raises QmpError when the socket is gone, silent for `timeout` seconds, or answers with an error.
    """
    # A path through /proc/self/fd stays short, however deep the state folder is.
    fd = _open_folder(folder)
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(timeout)
            link.connect(f"/proc/self/fd/{fd}/{QMP_SOCKET}")
            with link.makefile("rwb") as stream:
                stream.readline()  # the greeting
                _ask(stream, "qmp_capabilities")
                return _ask(stream, command)
    except (OSError, ValueError) as error:
        raise QmpError(f"{command}: {error}") from error
    finally:
        os.close(fd)


def _open_folder(folder: Path) -> int:
    try:
        return os.open(folder, os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise QmpError(str(error)) from error


def _ask(stream: Any, command: str) -> dict[str, Any]:
    stream.write(json.dumps({"execute": command}).encode() + b"\n")
    stream.flush()
    while True:
        line = stream.readline()
        if not line:
            raise QmpError(f"{command}: QEMU closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise QmpError(f"{command}: {answer['error'].get('desc')}")
        if "return" in answer:
            result: dict[str, Any] = answer["return"]
            return result
