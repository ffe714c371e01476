"""The archive that is copied to the guest: `python3 ARCHIVE SCRIPT [OPTIONS]`."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    del sys.argv[0]
    importlib.import_module(sys.argv[0]).main()
