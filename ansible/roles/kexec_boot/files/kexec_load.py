"""Load a kernel for kexec if its image is the right one, prove that it is loaded, and say so as JSON.

Runs on the host, on its own Python (3.9 or newer), fed through standard input.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

READ_SIZE = 1 << 20


class LoadError(Exception):
    """The kernel is not loaded."""


def check_image(image: Path, sha256: str) -> None:
    """Raise LoadError unless the file has this hex SHA-256."""
    digest = hashlib.sha256()
    try:
        with image.open("rb") as stream:
            for block in iter(lambda: stream.read(READ_SIZE), b""):
                digest.update(block)
    except OSError as error:
        raise LoadError(f"{image} cannot be read: {error.strerror}") from error
    if digest.hexdigest() != sha256:
        raise LoadError(f"{image} has SHA-256 {digest.hexdigest()}, not {sha256}")


def load(arguments: list[str]) -> None:
    """Run kexec with these arguments; raise LoadError with what it said when it fails."""
    command = ["kexec", *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        said = result.stdout.decode("utf-8", "replace").strip().replace("\n", ", ")
        raise LoadError(f"{' '.join(command[:3])} ended with exit code {result.returncode}: {said}")


def check_loaded(sysroot: Path) -> None:
    """Raise LoadError unless the kernel says that one is loaded; kexec's exit code alone proves nothing."""
    loaded = (sysroot / "sys/kernel/kexec_loaded").read_text(encoding="utf-8").strip()
    if loaded != "1":
        raise LoadError(f"kexec reported success but /sys/kernel/kexec_loaded is {loaded}")


def main() -> int:
    """Parse the command line, load, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroot", type=Path, default=Path("/"), help="directory with proc/ and sys/")
    parser.add_argument("--sha256", required=True, help="hex SHA-256 that the image must have")
    parser.add_argument("--image", type=Path, required=True, help="kernel image to load")
    parser.add_argument(
        "--kexec-option", action="append", default=[], help="further argument of kexec --load"
    )
    options = parser.parse_args()
    try:
        check_image(options.image, options.sha256)
        load(["--load", str(options.image), *options.kexec_option])
        check_loaded(options.sysroot)
    except LoadError as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    boot_id = (options.sysroot / "proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    json.dump({"changed": True, "boot_id": boot_id, "kexec": shutil.which("kexec")}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
