"""The image of a kernel: whether it is the one that was built."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hotplug_host.errors import ExitCode, ToolError

READ_SIZE = 1 << 20


def check_image(image: Path, sha256: str) -> None:
    """Raise ToolError unless the file has this hex SHA-256: INPUT for another, ENVIRONMENT for no file."""
    digest = hashlib.sha256()
    try:
        with image.open("rb") as stream:
            for block in iter(lambda: stream.read(READ_SIZE), b""):
                digest.update(block)
    except OSError as error:
        raise ToolError(f"{image} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != sha256:
        raise ToolError(f"{image} has SHA-256 {digest.hexdigest()}, not {sha256}", code=ExitCode.INPUT)
