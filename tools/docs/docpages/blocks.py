"""The generated blocks of hand-written pages: each names its source in the comment it begins with."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout

from docpages import demo, exitcodes, fields, sureness
from docpages.paths import ROOT
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import cli

BLOCK = re.compile(
    r"^<!-- (?P<kind>[a-z ]+?)(?:: (?P<argument>[^\n]+))? -->\n.*?^<!-- end of (?P<end>[a-z ]+) -->$",
    re.MULTILINE | re.DOTALL,
)
#: Exit codes of a command that has printed all of its output.
ANSWERS = (ExitCode.OK, ExitCode.REGRESSION, ExitCode.NO_BASELINE)


def refreshed(text: str) -> str:
    """Return a page with its blocks made anew; ToolError (INPUT) if one cannot be made."""

    def fresh(match: re.Match[str]) -> str:
        make = KINDS.get(match["kind"])
        if make is None:
            return match[0]
        head = match[0].partition("\n")[0]
        return f"{head}\n\n{make(match['argument'] or '')}\n\n<!-- end of {match['end']} -->"

    return BLOCK.sub(fresh, text)


def _printed(arguments: str) -> str:
    """Return the output of a command of ours: Markdown as it is, all else as a terminal shows it."""
    program, _, rest = arguments.partition(" ")
    if program != "hotplug-timer":
        raise ToolError(f"{program}: its output cannot be shown", "name hotplug-timer", ExitCode.INPUT)
    words = [name for word in shlex.split(rest) for name in _expanded(word)]
    if "markdown" in words:
        return output_of(words)
    return f"```console\n$ {arguments}\n{output_of(words, errors=True)}\n```"


def _captured(name: str) -> str:
    """Return the output that tools/docs/record.py recorded in a file."""
    try:
        printed = (ROOT / name).read_text("utf-8").rstrip()
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}", "run tools/docs/record.py", ExitCode.INPUT) from error
    return f"```console\n{printed}\n```"


def _expanded(word: str) -> list[str]:
    """Return the files that a shell would match with a pattern, from the root; else the word."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]


def output_of(arguments: list[str], *, errors: bool = False) -> str:
    """Return the output of hotplug-timer, with its notes and warnings if `errors`.

    Paths in the arguments are relative to the root. ToolError (INPUT) when the command fails.
    """
    stream = io.StringIO()
    with chdir(ROOT), redirect_stdout(stream), redirect_stderr(stream if errors else io.StringIO()):
        code = cli.main(arguments)
    if code not in ANSWERS:
        raise ToolError(f"{arguments[0]} ended with {code}", "run make demo again", ExitCode.INPUT)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


KINDS: Mapping[str, Callable[[str], str]] = {
    "output of": _printed,
    "captured": _captured,
    "demo table": lambda _: demo.table(output_of),
    "demo output": lambda _: demo.console(output_of),
    "fields": fields.table,
    "exit codes": lambda _: exitcodes.table(),
    "smallest effects": lambda _: sureness.table(),
}
