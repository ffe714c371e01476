"""Run as `python -m kernel_qualify`."""

import sys

from kernel_qualify.cli import main

if __name__ == "__main__":
    sys.exit(main())
