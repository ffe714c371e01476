"""Packing the part that runs on measured hosts into one file Python runs as it is."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from hotplug_timer.errors import ExitCode, ToolError

PACKAGE = Path(__file__).parent
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

from hotplug_timer.target.command import main

sys.exit(main())
"""
#: The zip format's earliest date, so that the same sources give the same bytes.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def bundled_files() -> dict[str, str]:
    """Return the archive's files, name to text: this package's errors and target, and a main."""
    sources = [PACKAGE / "__init__.py", PACKAGE / "errors.py", *(PACKAGE / "target").glob("*.py")]
    files = {f"hotplug_timer/{path.relative_to(PACKAGE)}": path.read_text("utf-8") for path in sources}
    return {"__main__.py": MAIN, **files}


def build_bundle() -> bytes:
    """Return the zipapp. The same sources give the same bytes: sorted, undated, uncompressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, text in sorted(bundled_files().items()):
            entry = zipfile.ZipInfo(name, TIMESTAMP)
            entry.create_system = 3  # Unix, whatever builds it
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, text)
    return SHEBANG + buffer.getvalue()


def write_bundle(path: Path) -> None:
    """Write the zipapp to PATH, executable; ToolError (ENVIRONMENT) when that fails."""
    try:
        path.write_bytes(build_bundle())
        path.chmod(0o755)
    except OSError as error:
        raise ToolError(
            f"cannot write {path}: {error.strerror}", "name another --output", ExitCode.ENVIRONMENT
        ) from error
