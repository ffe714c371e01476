"""Run as `python -m lpar_lab`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
