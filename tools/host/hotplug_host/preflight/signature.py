"""Whether the image of a kernel carries a signature.

POWER kernels have it appended, as modules have (scripts/sign-file); x86-64 kernels have that of a PE file
(sbsign). Whether a host trusts the key is the host's to tell.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

#: What ends an image with an appended signature (include/linux/module_signature.h).
APPENDED = b"~Module signature appended~\n"
#: Where a PE file has the offset of its header, and what that begins with.
PE_OFFSET, PE_MAGIC = 0x3C, b"PE\0\0"
#: The optional header follows the magic and the COFF header of 20 bytes.
OPTIONAL = 24
#: Where the optional header has the entry of the certificate table, by the header's magic (PE32, PE32+).
CERTIFICATES = {0x10B: 128, 0x20B: 144}


def is_signed(image: Path) -> bool:
    """Return whether an image carries a signature. OSError when it cannot be read."""
    with image.open("rb") as stream:
        # Hundreds of MB with debugging information, of which two places count.
        if stream.seek(0, 2) == 0:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data[-len(APPENDED) :] == APPENDED or _has_certificates(data)


def _has_certificates(data: mmap.mmap) -> bool:
    """Return whether a PE file's certificate table has a size."""
    try:
        (header,) = struct.unpack_from("<I", data, PE_OFFSET)
        (kind,) = struct.unpack_from("<H", data, header + OPTIONAL)
        _, size = struct.unpack_from("<II", data, header + OPTIONAL + CERTIFICATES[kind])
    except (struct.error, KeyError):
        return False
    return data[:2] == b"MZ" and data[header : header + len(PE_MAGIC)] == PE_MAGIC and size > 0
