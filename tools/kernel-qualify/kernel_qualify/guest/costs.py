"""Measure what the parts of a switch cost, as `hotplug-timer measure-costs` does, and hand its files over."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hotplug_host.timing import command
from kernel_qualify.guest import machine, programs

RESULT = "costs.jsonl"


def main() -> None:
    """Measure, and report every file that this writes."""
    argparse.ArgumentParser().parse_args()
    machine.mount_tracing()
    folder = Path(programs.FOLDER) / "costs"
    folder.mkdir()
    os.chdir(folder)
    code = command.main(["measure-costs", "--output", RESULT, "--emulated"])
    if code:
        raise SystemExit(code)
    for path in sorted(folder.iterdir()):
        machine.hand_over(path.name, path.read_bytes())
    machine.record("machine", **machine.settings())
