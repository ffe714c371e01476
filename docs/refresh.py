#!/usr/bin/env python3
"""Keep the README's first screen what the tool really prints for the result files in docs/examples/demo."""

from __future__ import annotations

import argparse
import io
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from hotplug_timer import cli
from hotplug_timer.analysis.compare import Comparison, compare
from hotplug_timer.analysis.reader import Dataset, read_files
from hotplug_timer.errors import ExitCode, ToolError

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
EXAMPLE = ROOT / "docs/examples/demo"
BASELINE = "stock"
BEGIN = "<!-- what make demo printed; written by make readme -->"
END = "<!-- end of what make demo printed -->"


def main(argv: Sequence[str] | None = None) -> int:
    """Refresh or check the README; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="results of a demo, for example results/demo: its raw files become the example first",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the README is stale")
    arguments = parser.parse_args(argv)
    try:
        if arguments.results:
            replace_example(arguments.results)
        fresh = with_block(README.read_text("utf-8"), block(sorted(EXAMPLE.glob("*.jsonl"))))
    except ToolError as error:
        sys.stderr.write(f"refresh: error: {error}\n")
        return int(error.code)
    if arguments.check:
        return check(fresh)
    README.write_text(fresh, "utf-8")
    return ExitCode.OK


def check(fresh: str) -> int:
    """Say whether the README is as it would be written; return the exit code."""
    if README.read_text("utf-8") == fresh:
        return ExitCode.OK
    sys.stderr.write(
        f"refresh: error: {README.name} is stale; it should hold\n\n{fresh.split(END, maxsplit=1)[0]}"
    )
    return ExitCode.INPUT


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
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(io.StringIO()):
        code = cli.main(["compare", "--baseline", BASELINE, *map(str, files)])
    if code != ExitCode.OK:
        raise ToolError(f"compare ended with {code} for the example", "run make demo again", ExitCode.INPUT)
    printed = "\n".join(line.rstrip() for line in output.getvalue().splitlines())
    conditions = conditions_of(data, compare(data, BASELINE))
    return f"```console\n$ make demo\n...\n{printed}\n```\n\n{conditions}\n"


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
