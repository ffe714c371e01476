"""Connections to the sockets that QEMU has in a guest's folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def connected(folder: Path, name: str, timeout: float) -> Iterator[socket.socket]:
    """Connect to the socket of that name; OSError when it is gone, or silent for `timeout` seconds."""
    # A path through /proc/self/fd stays short, however deep the folder is.
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(timeout)
            link.connect(f"/proc/self/fd/{fd}/{name}")
            yield link
    finally:
        os.close(fd)
