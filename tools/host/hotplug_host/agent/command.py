"""The program that travels to hosts for playbooks: hotplug-timer's commands, and one command per step.

A step prints one JSON object as its last line. Where it fails, the object has `error`, and the exit code
is not 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from hotplug_host.entry import Parser, guarded
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.lease import renew_own

PROGRAM = "hotplug-timer"
#: Each is a module beside this one, with `add_arguments(parser)` and `act(arguments)`.
STEPS = (
    "boot-entry",
    "boot-fallback",
    "clocksource",
    "health",
    "kexec-load",
    "rcu-expedited",
    "run-lock",
    "smt-persist",
    "smt-state",
    "smt-unit",
)
#: Those that report without changing anything what they would change, as Ansible's check mode asks.
DRY = frozenset(STEPS) - {"health", "smt-unit"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the step that the first word names, or else hotplug-timer's command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    renew_own()
    # A module is compiled anew on every start of a zipapp: only what is used is imported.
    if not words or words[0] not in STEPS:
        code: int = import_module("hotplug_host.timing.command").main(words)
        return code
    step = import_module(f"hotplug_host.agent.{words[0].replace('-', '_')}")
    parser = Parser(prog=f"{PROGRAM} {words[0]}", description=step.__doc__)
    if words[0] in DRY:
        parser.add_argument("--dry-run", action="store_true", help="change nothing, report what would change")
    step.add_arguments(parser)

    def work() -> int:
        arguments = parser.parse_args(words[1:])
        code = answered(lambda: step.act(arguments))
        # A step may have taken hours.
        renew_own()
        return code

    return guarded(PROGRAM, work)


def answered(work: Callable[[], Mapping[str, Any]]) -> int:
    """Print what WORK returns as a line of JSON, or its fault as `error`; returns the exit code."""
    answer: Mapping[str, Any]
    code = ExitCode.OK
    try:
        answer = work()
    except ToolError as fault:
        answer, code = {**fault.answer, "error": str(fault)}, fault.code
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        answer, code = {"error": f"{where}{fault.strerror or fault}"}, ExitCode.ENVIRONMENT
    sys.stdout.write(f"{json.dumps(answer)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
