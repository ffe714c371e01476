"""Power-cycle a host that does not answer, by the operator's command, and keep its console's last lines.

The commands are an HMC's, a BMC's or a script's: words as a POSIX shell splits them, started without a shell.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from hotplug_common.guest.ending import last_words, read_since
from hotplug_common.process import last_line, run
from hotplug_host.entry import Parser, guarded
from hotplug_host.errors import ExitCode, ToolError

#: A console of an HMC shows only what comes while it is open; one that hangs stays silent.
LISTEN_S = 20.0
#: An HMC that answers slowly must not cost a host its only power cycle.
POWER_CYCLE_S = 600.0


def words_of(command: str) -> list[str]:
    """Return the words of a command; ToolError (USAGE) where there are none."""
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise ToolError(f"{command!r} is no command: {problem}", "quote its words", ExitCode.USAGE) from None
    if not words:
        raise ToolError("the command is empty", "name a program", ExitCode.USAGE)
    return words


def listen(command: str, log: Path, seconds: float, most: int) -> list[str]:
    """Add what the console prints within SECONDS to LOG, and return the last lines of it.

    ToolError where the command fails: a console that has no end is the usual one.
    """
    words = words_of(command)
    log.parent.mkdir(parents=True, exist_ok=True)
    start = log.stat().st_size if log.exists() else 0
    try:
        done = run(words, log=log, timeout=seconds)
    except ToolError as error:
        if error.code is not ExitCode.TIMEOUT:
            raise
    else:
        if done.returncode:
            raise ToolError(f"'{words[0]}' ended with {done.returncode}", code=ExitCode.OPERATION)
    return last_words(read_since(log, start), most)


def power_cycle(command: str, seconds: float) -> None:
    """Run the command once; ToolError (OPERATION) where it fails."""
    words = words_of(command)
    done = run(words, timeout=seconds)
    if done.returncode:
        raise ToolError(
            f"the power cycle failed: '{words[0]}' ended with {done.returncode}: {last_line(done.output)}",
            "power-cycle the host by hand",
            ExitCode.OPERATION,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, keep the console, power-cycle; returns the exit code."""
    parser = Parser(prog="power-cycle", description=__doc__)
    parser.add_argument("--power-cycle", required=True, metavar="COMMAND")
    parser.add_argument("--console", default="", metavar="COMMAND")
    parser.add_argument("--keep", type=Path, required=True, metavar="FILE", help="where the console goes")
    parser.add_argument("--listen", type=float, default=LISTEN_S, metavar="SECONDS")
    parser.add_argument("--timeout", type=float, default=POWER_CYCLE_S, metavar="SECONDS")
    parser.add_argument("--lines", type=int, default=20)

    def work() -> None:
        arguments = parser.parse_args(argv)
        if arguments.console:
            # Without the console the host still needs its power cycle.
            try:
                lines = listen(arguments.console, arguments.keep, arguments.listen, arguments.lines)
            except (ToolError, OSError) as problem:
                lines = [f"the console could not be read: {problem}"]
            sys.stdout.write("".join(f"{line}\n" for line in lines))
        power_cycle(arguments.power_cycle, arguments.timeout)

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
