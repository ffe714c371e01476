"""Print the last lines of a console's log, up to its last panic if there is one.

A host that panicked boots again, so that the end of its log is of another kernel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hotplug_common.guest.console import ESCAPE
from hotplug_host.entry import Parser, guarded

#: What a kernel prints when it is over; what comes after is the firmware's, or the next kernel's.
OVER = re.compile(r"Kernel panic - not syncing|---\[ end Kernel panic|Rebooting in \d+ seconds")
#: Characters that no terminal shows.
NOISE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: More than this is never asked for.
MOST_BYTES = 1 << 20


def read_since(log: Path, start: int) -> str:
    """Return what was written after START bytes; all of it in a log that was begun anew since."""
    with log.open("rb") as stream:
        size = stream.seek(0, 2)
        begin = start if start <= size else 0
        stream.seek(max(begin, size - MOST_BYTES))
        return stream.read().decode("utf-8", "replace")


def last_words(text: str, most: int) -> list[str]:
    """Return the last lines with text in them, up to the last panic."""
    lines = [line.rstrip() for line in NOISE.sub("", ESCAPE.sub("", text)).split("\n")]
    lines = [line for line in lines if line.strip()]
    over = [at for at, line in enumerate(lines) if OVER.search(line)]
    end = over[-1] + 1 if over else len(lines)
    return lines[max(0, end - most) : end]


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and print; returns the exit code."""
    parser = Parser(prog="console-ending", description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--from", dest="start", type=int, default=0, metavar="BYTES")
    parser.add_argument("--lines", type=int, default=20)

    def work() -> None:
        arguments = parser.parse_args(argv)
        text = read_since(arguments.log, arguments.start)
        sys.stdout.write("".join(f"{line}\n" for line in last_words(text, arguments.lines)))

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
