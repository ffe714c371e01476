"""A guest's identity: its keys and host name, made on the controller and given to it on a seed disk."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import process
from hotplug_common.guest.qemu import SEED
from hotplug_host.errors import ToolError

CLIENT_KEY = "id_ed25519"
HOST_KEY = "ssh_host_ed25519_key"
KNOWN_HOSTS = "known_hosts"
SECTOR = 512


@dataclass(frozen=True)
class Member:
    """One file of the seed."""

    path: str
    content: bytes
    mode: int


def write(folder: Path, name: str, port: int, more: Sequence[Member] = ()) -> None:
    """Make keys, known_hosts and the seed disk in a guest's folder; MORE files go onto the disk, too."""
    for key in (CLIENT_KEY, HOST_KEY):
        _generate(folder / key, f"{name}@lpar-lab")
    host_public = (folder / f"{HOST_KEY}.pub").read_text()
    (folder / KNOWN_HOSTS).write_text(known_hosts_line(port, host_public))
    members = [
        Member("etc/hostname", f"{name}\n".encode(), 0o644),
        Member("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost\n".encode(), 0o644),
        Member(f"etc/ssh/{HOST_KEY}", (folder / HOST_KEY).read_bytes(), 0o600),
        Member(f"etc/ssh/{HOST_KEY}.pub", host_public.encode(), 0o644),
        Member("root/.ssh/authorized_keys", (folder / f"{CLIENT_KEY}.pub").read_bytes(), 0o600),
        *more,
    ]
    (folder / SEED).write_bytes(pack(members))


def known_hosts_line(port: int, public_key: str) -> str:
    """Pin a host key to the guest's address on the loopback."""
    kind, key = public_key.split()[:2]
    return f"[127.0.0.1]:{port} {kind} {key}\n"


def pack(members: list[Member]) -> bytes:
    """Pack files owned by root into a tar file; its size is a multiple of a disk sector (10 KiB records)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("root/.ssh",):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(info)
        for member in members:
            info = tarfile.TarInfo(member.path)
            info.size, info.mode = len(member.content), member.mode
            tar.addfile(info, io.BytesIO(member.content))
    return buffer.getvalue()


def _generate(path: Path, comment: str) -> None:
    result = process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])
    if result.returncode != 0:
        raise ToolError(f"ssh-keygen failed: {process.last_line(result.output)}", "check the free disk space")
