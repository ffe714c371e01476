"""The few words of QMP the lab speaks: ask QEMU how the machine is, change its cores, tell it to quit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotplug_common.guest import sockets
from hotplug_common.guest.qemu import QMP_SOCKET


class QmpError(Exception):
    """QEMU's monitor did not answer, or refused."""


def execute(
    folder: Path, command: str, arguments: Mapping[str, Any] | None = None, timeout: float = 3.0
) -> Any:
    """Run one QMP command and return what it returns.

    Raises QmpError when the socket is gone, silent for `timeout` seconds, or answers with an error.
    """
    try:
        with sockets.connected(folder, QMP_SOCKET, timeout) as link, link.makefile("rwb") as stream:
            stream.readline()  # the greeting
            _ask(stream, "qmp_capabilities")
            return _ask(stream, command, arguments)
    except (OSError, ValueError) as error:
        raise QmpError(f"{command}: {error}") from error


def _ask(stream: Any, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
    stream.write(json.dumps({"execute": command, "arguments": arguments or {}}).encode() + b"\n")
    stream.flush()
    while True:
        line = stream.readline()
        if not line:
            raise QmpError(f"{command}: QEMU closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise QmpError(f"{command}: {answer['error'].get('desc')}")
        if "return" in answer:
            return answer["return"]
