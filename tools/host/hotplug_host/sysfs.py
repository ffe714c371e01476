"""Reading and writing kernel files below a root directory ("/" on a real host)."""

from __future__ import annotations

import os
from pathlib import Path

from hotplug_host.errors import ExitCode, ToolError

CPU_DIR = "/sys/devices/system/cpu"
SMT_CONTROL = f"{CPU_DIR}/smt/control"
#: How many CPUs the patched kernel switches at once; no other kernel has it.
BULK_CHUNK = f"{CPU_DIR}/hotplug/bulk_chunk"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SMT_ACTIVE = f"{CPU_DIR}/smt/active"


class Sysfs:
    """Kernel files of one host. Paths are given as on the host ("/sys/...")."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def is_host(self) -> bool:
        """Whether this is the running system and not a tree given with --sysroot."""
        return self.root.resolve() == Path("/")

    def path(self, name: str) -> Path:
        """Return where the host's file NAME is found."""
        return self.root / name.lstrip("/")

    def exists(self, name: str) -> bool:
        """Whether NAME exists."""
        return self.path(name).exists()

    def read(self, name: str) -> str:
        """Return the file's text without surrounding white space; ToolError when it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError as error:
            raise ToolError(
                f"cannot read {self.path(name)}: {error.strerror}",
                "this needs a Linux host with sysfs and procfs mounted, or the right --sysroot",
                ExitCode.ENVIRONMENT,
            ) from error

    def read_optional(self, name: str) -> str | None:
        """Return the file's text, or None when it is missing or does not let itself be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def write(self, name: str, text: str) -> None:
        """Replace the file's content; the file has to exist. OSError as the kernel returns it."""
        self._write(name, text, os.O_WRONLY | os.O_TRUNC)

    def append(self, name: str, text: str) -> None:
        """Write without clearing first (tracefs reads that as "add"). OSError as the kernel returns it."""
        self._write(name, text, os.O_WRONLY | os.O_APPEND)

    def mkdir(self, name: str) -> None:
        """Make a directory (in tracefs: a trace instance). OSError as the kernel returns it."""
        self.path(name).mkdir()

    def rmdir(self, name: str) -> None:
        """Remove a directory. OSError as the kernel returns it."""
        self.path(name).rmdir()

    def glob(self, directory: str, pattern: str) -> list[Path]:
        """Return the entries of a host directory that match, sorted; none when it is missing."""
        return sorted(self.path(directory).glob(pattern))

    def _write(self, name: str, text: str, flags: int) -> None:
        descriptor = os.open(self.path(name), flags)
        try:
            left = text.encode()
            # tracefs takes one word per write() and returns how much it used.
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)
