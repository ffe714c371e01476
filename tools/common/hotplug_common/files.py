"""Writing results that a user asked for by an option."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hotplug_host.errors import ExitCode, ToolError


def write_files(directory: Path, texts: Mapping[str, str], what: str) -> list[Path]:
    """Write texts by their names into a folder, which is made when missing; returns their paths.

    WHAT the texts are together is for the ToolError (ENVIRONMENT) that tells that they cannot be written.
    """
    paths = [directory / name for name in texts]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text, "utf-8")
    except OSError as error:
        raise ToolError(
            f"cannot write the {what} to {directory}: {error.strerror}",
            "name another --output-dir",
            ExitCode.ENVIRONMENT,
        ) from error
    return paths
