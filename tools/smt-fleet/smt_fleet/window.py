"""The end of a window, for a script: `python -m smt_fleet.window TIME` prints it as playbooks take it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime

from hotplug_host.entry import Parser, guarded
from hotplug_host.errors import ExitCode, ToolError
from smt_fleet.cli import window_end


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and print; returns the exit code."""
    parser = Parser(prog="fleet-window", description=__doc__)
    parser.add_argument("time", metavar="TIME")

    def work() -> None:
        end = window_end(parser.parse_args(argv).time, datetime.now())
        if not end:
            raise ToolError("'' is no time", "give HH:MM or YYYY-MM-DDTHH:MM", ExitCode.USAGE)
        sys.stdout.write(f"{end}\n")

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
