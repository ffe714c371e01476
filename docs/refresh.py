#!/usr/bin/env python3
"""Keep what the documentation shows of the tools' output what they really print.

The README's first screen is of the result files in docs/examples/demo; a page's blocks name their commands.
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import clock_check.cli
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import cli
from hotplug_timer.compare.comparison import Comparison, compare
from hotplug_timer.manual import markdown
from hotplug_timer.manual.command import manual_text
from hotplug_timer.manual.commands import describe
from hotplug_timer.reader import Dataset, read_files

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = tuple(
    ROOT / "docs" / page
    for page in (
        "clock-check.md",
        "hotplug-timer.md",
        "predict.md",
        "rcu-variants.md",
        "regression.md",
        "tracing.md",
    )
)
EXAMPLE = ROOT / "docs/examples/demo"
CLI = ROOT / "docs/cli.md"
CLOCK_CLI = ROOT / "docs/clock-check-cli.md"
CLOCK_MORE = "what the commands are for is in [clock-check.md](clock-check.md)"
BASELINE = "stock"
#: What a command may end with and have printed all it had to.
ANSWERS = (ExitCode.OK, ExitCode.REGRESSION, ExitCode.NO_BASELINE)
BEGIN = "<!-- what make demo printed; written by make readme -->"
END = "<!-- end of what make demo printed -->"
OUTPUT = re.compile(
    r"^(<!-- output of: hotplug-timer (?P<arguments>[^\n]+) -->\n).*?^(?P<end><!-- end of output -->)$",
    re.MULTILINE | re.DOTALL,
)
#: What was printed elsewhere, by docs/record.py, and is kept in a file.
CAPTURED = re.compile(
    r"^(<!-- captured: (?P<file>[^\n]+) -->\n).*?^(?P<end><!-- end of captured -->)$",
    re.MULTILINE | re.DOTALL,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Refresh or check the documentation; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="results of a demo, for example results/demo: its raw files become the example first",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a page is stale")
    arguments = parser.parse_args(argv)
    try:
        if arguments.results:
            replace_example(arguments.results)
        fresh = {README: with_block(README.read_text("utf-8"), block(sorted(EXAMPLE.glob("*.jsonl"))))}
        fresh[CLI] = manual_text(cli.build_parser(), "markdown")
        clock_commands = list(describe(clock_check.cli.build_parser()))
        fresh[CLOCK_CLI] = markdown.page(clock_commands, CLOCK_MORE)
        fresh |= {page: with_outputs(page.read_text("utf-8")) for page in PAGES}
    except ToolError as error:
        sys.stderr.write(f"refresh: error: {error}\n")
        return int(error.code)
    if arguments.check:
        return check(fresh)
    for page, text in fresh.items():
        page.write_text(text, "utf-8")
    return ExitCode.OK


def check(fresh: Mapping[Path, str]) -> int:
    """Say which pages are not as they would be written; return the exit code."""
    stale = {page: text for page, text in fresh.items() if page.read_text("utf-8") != text}
    for page, text in stale.items():
        shown = text.split(END, maxsplit=1)[0]
        sys.stderr.write(f"refresh: error: {page.name} is stale; it should hold\n\n{shown}")
    return ExitCode.INPUT if stale else ExitCode.OK


def replace_example(results: Path) -> None:
    """Copy a demo's raw result files over the example; ToolError (INPUT) when there are none."""
    raw = sorted((results / "raw").rglob("*.jsonl"))
    if not raw:
        raise ToolError(f"no result files below {results / 'raw'}", "run make demo first", ExitCode.INPUT)
    EXAMPLE.mkdir(parents=True, exist_ok=True)
    for old in EXAMPLE.glob("*.jsonl"):
        old.unlink()
    for file in raw:
        shutil.copyfile(file, EXAMPLE / file.name)


def with_block(text: str, inside: str) -> str:
    """Return the README with `inside` between its marks; ToolError (INPUT) when a mark is missing."""
    pattern = re.compile(f"({re.escape(BEGIN)}\n).*?({re.escape(END)})", re.DOTALL)
    fresh, found = pattern.subn(lambda match: f"{match[1]}{inside}{match[2]}", text)
    if found != 1:
        raise ToolError(f"{README} lacks the marks of the block", f"put '{BEGIN}' back", ExitCode.INPUT)
    return fresh


def block(files: Sequence[Path]) -> str:
    """Return the README's block: the command, what it printed, and under which conditions."""
    if not files:
        raise ToolError(f"no result files in {EXAMPLE}", "name the results of a demo", ExitCode.INPUT)
    data = read_files(files)
    printed = output_of(["compare", "--baseline", BASELINE, *map(str, files)])
    conditions = conditions_of(data, compare(data, BASELINE))
    return f"```console\n$ make demo\n...\n{printed}\n```\n\n{conditions}\n"


def with_outputs(text: str) -> str:
    """Return a page with what each of its commands prints, or has printed.

    Markdown as such, anything else as a terminal shows it, notes and warnings included.
    """

    def run(match: re.Match[str]) -> str:
        words = [name for word in shlex.split(match["arguments"]) for name in _expanded(word)]
        if "markdown" in words:
            return f"{match[1]}\n{output_of(words)}\n\n{match['end']}"
        printed = output_of(words, errors=True)
        return (
            f"{match[1]}\n```console\n$ hotplug-timer {match['arguments']}\n{printed}\n```\n\n{match['end']}"
        )

    def show(match: re.Match[str]) -> str:
        try:
            printed = (ROOT / match["file"]).read_text("utf-8").rstrip()
        except OSError as error:
            raise ToolError(
                f"{match['file']}: {error.strerror}", "run docs/record.py", ExitCode.INPUT
            ) from error
        return f"{match[1]}\n```console\n{printed}\n```\n\n{match['end']}"

    return CAPTURED.sub(show, OUTPUT.sub(run, text))


def _expanded(word: str) -> list[str]:
    """Return the files a shell would make of a word with a star, from the root."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]


def output_of(arguments: Sequence[str], *, errors: bool = False) -> str:
    """Return what hotplug-timer prints, and its notes and warnings with `errors`.

    Paths in the arguments are from the root. ToolError (INPUT) when it fails.
    """
    stream = io.StringIO()
    with chdir(ROOT), redirect_stdout(stream), redirect_stderr(stream if errors else io.StringIO()):
        code = cli.main(arguments)
    if code not in ANSWERS:
        raise ToolError(f"{arguments[0]} ended with {code}", "run make demo again", ExitCode.INPUT)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def conditions_of(data: Dataset, comparison: Comparison) -> str:
    """Say in one sentence what the figures were measured on, how often, and how far they spread."""
    first = data.runs[0].host
    kernels = " and ".join(dict.fromkeys(f"`{run.host.kernel_release}`" for run in data.runs))
    boots = ", ".join(run.label for run in data.runs)
    spread = "; ".join(
        f"{row.operation} {row.label} {row.summary.minimum:.2f} to {row.summary.maximum:.2f} s"
        for row in comparison.rows
    )
    return (
        f"Kernels {kernels}; {first.cpu_model}{', emulated by QEMU' if comparison.emulated else ''};\n"
        f"booted in turns ({boots}), each by {first.boot_method}.\n"
        f"Spread: {spread}.\n"
        f"Every sample is in [docs/examples/demo](docs/examples/demo)."
    )


if __name__ == "__main__":
    sys.exit(main())
