"""Which kernel images carry a signature."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_common.kernel import signature
from hotplug_host.preflight.signature import APPENDED, is_signed


def pe(kind: int, table: int, size: int) -> bytes:
    """A PE file whose optional header of a kind has a certificate table of a size."""
    data = bytearray(0x200)
    data[:2] = b"MZ"
    struct.pack_into("<I", data, 0x3C, 0x80)
    data[0x80:0x84] = b"PE\0\0"
    struct.pack_into("<H", data, 0x80 + 24, kind)
    struct.pack_into("<II", data, 0x80 + 24 + table, 0x1000, size)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"\x7fELF and more", False),
        (b"\x7fELF and more, signed~Module signature appended~\n", True),
        (pe(0x20B, 144, 1496), True),
        (pe(0x20B, 144, 0), False),
        (pe(0x10B, 128, 1496), True),
        (pe(0x107, 128, 1496), False),
        (b"MZ", False),
        (b"", False),
    ],
)
def test_images_are_told_apart(tmp_path: Path, data: bytes, signed: bool) -> None:
    image = tmp_path / "vmlinux"
    image.write_bytes(data)
    assert is_signed(image) is signed


@given(st.binary(max_size=200))
def test_any_file_is_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    image = tmp_path_factory.getbasetemp() / "any"
    image.write_bytes(data)
    assert is_signed(image) is data.endswith(APPENDED)


def test_the_unsigned_ones_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is missing is another check's."""
    for name, data in (("a", b"kernel"), ("b", pe(0x20B, 144, 1496))):
        (tmp_path / name).write_bytes(data)
    assert signature.main([str(tmp_path / name) for name in "abc"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a'}\n"
