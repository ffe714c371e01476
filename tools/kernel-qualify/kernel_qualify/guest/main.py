"""The start of the archive that is copied to a guest: `python3 ARCHIVE SCRIPT [OPTIONS]`."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Run the script that the first word names, with the words after it."""
    del sys.argv[0]
    importlib.import_module(f"kernel_qualify.guest.{sys.argv[0]}").main()
