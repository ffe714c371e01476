"""Options that several programs share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a result says of its host that the host itself may not show."""
    parser.add_argument(
        "--boot-method",
        choices=("kexec", "firmware"),
        default="unknown",
        help="how this kernel was started; recorded, so that mixed ones get noticed",
    )
    parser.add_argument(
        "--emulated",
        action="store_true",
        help="record that the CPUs are emulated where the host does not show it itself",
    )


def add_sysroot(parser: argparse.ArgumentParser) -> None:
    """Add --sysroot."""
    parser.add_argument(
        "--sysroot",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="use DIR/sys and DIR/proc, for tests without root (default: %(default)s)",
    )
