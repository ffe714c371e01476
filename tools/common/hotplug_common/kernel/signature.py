"""Print which kernel images carry no signature."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hotplug_host.entry import Parser, guarded
from hotplug_host.preflight.signature import is_signed


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and print; returns the exit code."""
    parser = Parser(prog="kernel-signature", description=__doc__)
    parser.add_argument("images", type=Path, nargs="*", metavar="IMAGE")

    def work() -> None:
        images = parser.parse_args(argv).images
        sys.stdout.write(
            "".join(f"{image}\n" for image in images if image.is_file() and not is_signed(image))
        )

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
