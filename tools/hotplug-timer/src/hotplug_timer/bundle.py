"""Packing the part that runs on measured hosts into one file Python runs as it is."""

from __future__ import annotations

import base64
import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from hotplug_timer.errors import ExitCode, ToolError

PACKAGE = Path(__file__).parent
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = """\
import sys

from hotplug_timer.target.command import main

sys.exit(main())
"""
#: What is fed to a host's python3 where nothing is to be written. Old ones understand it, so as to be named.
SCRIPT = """\
# hotplug-timer, for python3's standard input: the archive is unpacked into memory and started from there.
import sys
if sys.version_info < (3, 9):
    print('{"error": "python3 is %d.%d and has to be 3.9 or later"}' % sys.version_info[:2])
    sys.exit(1)
import base64, os, zlib
try:
    number = os.memfd_create("hotplug-timer.pyz", 8)  # MFD_NOEXEC_SEAL, which hardened kernels demand
except OSError:
    number = os.memfd_create("hotplug-timer.pyz", 0)  # before Linux 6.3
with os.fdopen(number, "wb", closefd=False) as archive:
    archive.write(zlib.decompress(base64.b64decode("@ARCHIVE@")))
os.execv(sys.executable, [sys.executable, "/proc/self/fd/%d" % number] + sys.argv[1:])
"""
#: The zip format's earliest date, so that the same sources give the same bytes.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def target_files() -> dict[str, bytes]:
    """Return what runs on measured hosts, name in the archive to content: errors and target."""
    sources = [PACKAGE / "__init__.py", PACKAGE / "errors.py", *(PACKAGE / "target").glob("*.py")]
    return {f"hotplug_timer/{path.relative_to(PACKAGE)}": path.read_bytes() for path in sources}


def build_bundle() -> bytes:
    """Return the zipapp of what runs on measured hosts."""
    return pack({"__main__.py": MAIN.encode(), **target_files()})


def build_script() -> bytes:
    """Return the zipapp as a script that python3 reads from its standard input.

    One command line of ssh has to hold it, of which Linux allows 128 KiB.
    """
    archive = base64.b64encode(zlib.compress(build_bundle(), 9))
    return SCRIPT.encode().replace(b"@ARCHIVE@", archive)


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


def write_bundle(path: Path, content: bytes | None = None) -> None:
    """Write a zipapp, that of `build_bundle` or another, to PATH; ToolError (ENVIRONMENT) when that fails."""
    try:
        path.write_bytes(build_bundle() if content is None else content)
        path.chmod(0o755)
    except OSError as error:
        raise ToolError(
            f"cannot write {path}: {error.strerror}", "name another --output", ExitCode.ENVIRONMENT
        ) from error
