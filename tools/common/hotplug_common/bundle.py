"""Packing what runs on measured hosts into one file that Python runs as it is."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import hotplug_host
from hotplug_host.errors import ExitCode, ToolError

PACKAGE = Path(str(hotplug_host.__file__)).parent
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

from {module} import main

sys.exit(main())
"""
#: The zip format's earliest date, so that the same sources give the same bytes.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def host_files(main: str, *folders: str) -> dict[str, bytes]:
    """Return the files of a bundle, name in the archive to content.

    They are hotplug_host's own modules, those of its FOLDERS, and a start of MAIN, a module with `main()`.
    """
    sources = [path for folder in (".", *folders) for path in (PACKAGE / folder).glob("*.py")]
    files = {path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes() for path in sources}
    return {"__main__.py": MAIN.format(module=main).encode(), **files}


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return a zipapp of the files. The same ones give the same bytes: sorted, undated, uncompressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, TIMESTAMP)
            entry.create_system = 3  # Unix, whatever builds it
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return SHEBANG + buffer.getvalue()


def write(path: Path, content: bytes) -> None:
    """Write a bundle to PATH, executable; ToolError (ENVIRONMENT) when that fails."""
    try:
        path.write_bytes(content)
        path.chmod(0o755)
    except OSError as error:
        raise ToolError(
            f"cannot write {path}: {error.strerror}", "name another --output", ExitCode.ENVIRONMENT
        ) from error
