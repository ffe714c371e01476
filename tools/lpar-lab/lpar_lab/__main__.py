"""Run as `python -m lpar_lab`."""

import sys

from lpar_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
