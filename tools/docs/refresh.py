#!/usr/bin/env python3
"""Write the generated parts of the documentation, or check that they are up to date.

Generated pages come from parsers and role options. Generated blocks in other pages name their source in the
comment they begin with. The README, and the picture of boots, show the result files in
docs/examples/demo.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import evidence
from docpages import blocks, commands, demo, modules, sureness, variables
from docpages.paths import DOCS, REFERENCE, ROOT
from hotplug_host.errors import ExitCode, ToolError


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
            demo.replace(arguments.results)
        fresh = pages()
    except ToolError as error:
        sys.stderr.write(f"refresh: error: {error}\n")
        return int(error.code)
    if arguments.check:
        return check(fresh)
    for page, text in fresh.items():
        page.write_text(text, "utf-8")
    return ExitCode.OK


def pages() -> dict[Path, str]:
    """Return every page that is generated or has a generated block, with its present text."""
    fresh = {
        **commands.pages(),
        **evidence.pages(),
        REFERENCE / "role-options.md": variables.page(),
        REFERENCE / "modules.md": modules.page(),
        sureness.PICTURE: sureness.picture(),
    }
    written = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return fresh | {page: blocks.refreshed(page.read_text("utf-8")) for page in written if page not in fresh}


def check(fresh: Mapping[Path, str]) -> int:
    """Print how stale pages differ from what would be written; return the exit code."""
    stale = False
    for page, text in fresh.items():
        name = str(page.relative_to(ROOT))
        old = page.read_text("utf-8") if page.exists() else ""
        if old != text:
            stale = True
            sys.stderr.write(f"refresh: error: {name} is stale; run make docs\n")
            sys.stderr.writelines(
                difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "generated", n=1)
            )
    return ExitCode.INPUT if stale else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
