"""SSH to a guest: its own key, its pinned host key, nothing from the user's configuration."""

from __future__ import annotations

import socket
from pathlib import Path

from hotplug_common import process
from hotplug_common.guest.seed import CLIENT_KEY, KNOWN_HOSTS
from hotplug_host.errors import ExitCode, ToolError

HOST = "127.0.0.1"
USER = "root"


def options(folder: Path) -> list[str]:
    """Return the options that pin the guest's host key; Ansible uses the same."""
    settings = {
        "UserKnownHostsFile": folder / KNOWN_HOSTS,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "PasswordAuthentication": "no",
        "ConnectTimeout": "30",
        "LogLevel": "ERROR",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def command(folder: Path, port: int, *, batch: bool = True) -> list[str]:
    """Return the ssh command up to and including the destination."""
    words = ["ssh", "-F", "/dev/null", "-i", str(folder / CLIENT_KEY), "-p", str(port), *options(folder)]
    if batch:
        words += ["-o", "BatchMode=yes"]
    return [*words, f"{USER}@{HOST}"]


def run(folder: Path, port: int, remote: str, timeout: float) -> process.Finished | None:
    """Run a command on the guest; None when it did not end within `timeout` seconds."""
    try:
        return process.run([*command(folder, port), remote], timeout=timeout)
    except ToolError as error:
        if error.code is ExitCode.TIMEOUT:
            return None
        raise


def banner(port: int, timeout: float = 2.0) -> bool:
    """Whether an SSH server answers. QEMU itself accepts the connection, so only a banner counts."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as link:
            link.settimeout(timeout)
            return link.recv(4) == b"SSH-"
    except OSError:
        return False


def choose_port(wanted: int | None) -> int:
    """Return a free port on the loopback, or `wanted`.

    Raises ToolError (ENVIRONMENT) when `wanted` is in use or may not be had.
    """
    with socket.socket() as probe:
        # QEMU binds with SO_REUSEADDR too: a port in TIME_WAIT is free for it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted or 0))
            probe.listen(1)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a port number"
            raise ToolError(
                f"port {wanted} on {HOST} cannot be had: {reason}",
                "choose another --ssh-port or leave it out",
            ) from error
        port: int = probe.getsockname()[1]
        return port
