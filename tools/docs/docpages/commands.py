"""The pages of the command lines, from the parsers of the programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import clock_check.cli
import clock_harness.cli
import hotplug_timer.cli
import kernel_qualify.cli
import lpar_lab.cli
import smt_fleet.cli
from docpages.paths import REFERENCE
from hotplug_timer.manual import markdown
from hotplug_timer.manual.commands import describe

PARSERS: Mapping[str, Callable[[], argparse.ArgumentParser]] = {
    "hotplug-timer": hotplug_timer.cli.build_parser,
    "clock-check": clock_check.cli.build_parser,
    "lpar-lab": lpar_lab.cli.parser,
    "kernel-qualify": kernel_qualify.cli.build_parser,
    "clock-harness": clock_harness.cli.parser,
    "smt-fleet": smt_fleet.cli.build_parser,
}


def pages() -> dict[Path, str]:
    """Return the page of each program."""
    return {
        REFERENCE / f"{name}.md": markdown.page(list(describe(parser()))) for name, parser in PARSERS.items()
    }
