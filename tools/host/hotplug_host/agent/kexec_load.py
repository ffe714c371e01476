"""Load a kernel for kexec if its image is the right one, and prove that it is loaded."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

from hotplug_host.agent.image import check_image
from hotplug_host.arguments import add_sysroot
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.programs import find_program
from hotplug_host.sysfs import BOOT_ID, Sysfs

LOADED = "/sys/kernel/kexec_loaded"
FILE_SYSCALL = "--kexec-file-syscall"
#: What kexec prints on a kernel with kexec_file_load alone (CONFIG_KEXEC not set, as RHEL 10's).
NO_SYSCALL = "Function not implemented"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--sha256", required=True, help="hex SHA-256 that the image must have")
    parser.add_argument("--image", type=Path, required=True, help="kernel image to load")
    parser.add_argument(
        "--kexec-option", action="append", default=[], help="further argument of kexec --load"
    )
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Load the image; ToolError when it is another, or not loaded afterwards."""
    fs = Sysfs(arguments.sysroot)
    # In check mode the task that copies the image has copied none.
    if arguments.image.exists() or not arguments.dry_run:
        check_image(arguments.image, arguments.sha256)
    if not arguments.dry_run:
        load(["--load", str(arguments.image), *arguments.kexec_option])
        check_loaded(fs)
    return {"changed": True, "boot_id": fs.read(BOOT_ID), "kexec": kexec()}


def kexec() -> str:
    """Return the program; ToolError where it is missing."""
    program = find_program("kexec")
    if program is None:
        raise ToolError("kexec is not on the host: install kexec-tools")
    return program


def load(arguments: list[str]) -> None:
    """Run kexec with these arguments; ToolError with its output when it fails.

    Where the kernel has no kexec_load, it is kexec_file_load that loads the image.
    """
    result = subprocess.run(
        [kexec(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if result.returncode != 0:
        said = result.stdout.decode("utf-8", "replace").strip().replace("\n", ", ")
        if NO_SYSCALL in said and FILE_SYSCALL not in arguments:
            load([*arguments, FILE_SYSCALL])
            return
        raise ToolError(
            f"kexec {' '.join(arguments[:2])} ended with exit code {result.returncode}: {said}",
            code=ExitCode.OPERATION,
        )


def check_loaded(fs: Sysfs) -> None:
    """Raise ToolError unless the kernel says that one is loaded; kexec's exit code alone proves nothing."""
    loaded = fs.read(LOADED)
    if loaded != "1":
        raise ToolError(f"kexec reported success but {LOADED} is {loaded}", code=ExitCode.OPERATION)
