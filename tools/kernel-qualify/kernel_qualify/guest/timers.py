"""The kernel's own tests of timers and clocks, with each clocksource; how each of them ended."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import time

from kernel_qualify.guest import machine, programs
from kernel_qualify.guest.machine import CLOCKSOURCE, record, say, write

TIMEOUT_S = 900.0
FAILED = re.compile(r"^\s*not ok \d+ (?:- )?(.*?)(?: #.*)?$", re.MULTILINE)
NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")


def run(words: list[str]) -> dict[str, object]:
    """Run a program; its exit code (None: took too long) and which of its parts failed, without figures."""
    begin = time.monotonic()
    try:
        done = programs.run(words, TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        return {"code": None, "failed": [], "seconds": TIMEOUT_S, "tail": str(error.stdout or "")[-600:]}
    failed = [NUMBERS.sub("N", part) for part in FAILED.findall(done.stdout)]
    seconds = round(time.monotonic() - begin, 1)
    return {"code": done.returncode, "failed": failed, "seconds": seconds, "tail": done.stdout[-600:]}


def main() -> None:
    """All programs with each clocksource; those that choose it themselves, once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clocksources", nargs="+", required=True)
    parser.add_argument(
        "--programs", nargs="+", required=True, help="each a program and its options, by commas"
    )
    parser.add_argument(
        "--once", nargs="*", default=[], help="the same, of those that choose the clocksource"
    )
    options = parser.parse_args()
    record("machine", **machine.settings(), present=machine.present())
    each = [words.split(",") for words in options.programs]
    runs = [(name, words) for name in options.clocksources for words in each]
    runs += [("any", words.split(",")) for words in options.once]
    for name, words in runs:
        if name != "any" and write(CLOCKSOURCE, name):
            raise SystemExit(f"cannot switch to clocksource {name}")
        say(f"{name}: {' '.join(words)}")
        record("timers", clocksource=name, program=words[0], **run(words))
        # A test that sets the clock may leave it anywhere.
        os.sync()
    record("end", online=machine.online(), clocksource=machine.clocksource())


if __name__ == "__main__":
    main()
