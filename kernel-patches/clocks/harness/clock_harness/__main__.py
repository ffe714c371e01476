"""Run as `python -m clock_harness`."""

import sys

from clock_harness.cli import main

if __name__ == "__main__":
    sys.exit(main())
