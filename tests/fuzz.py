#!/usr/bin/env python3
"""Give the parsers made-up input for as much CPU time as named; see docs/guides/contributors/tests.md.

Each test whose name begins with test_any runs in rounds, each with a seed of its own, until its
share of the time is used up. What was run is printed; where something was found, pytest's output is at
the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tests import ROOT

PYTEST = (sys.executable, "-m", "pytest", "-q", "-o", "timeout=0", "-p", "no:cacheprovider")
EXAMPLES = re.compile(r"(\d+) passing")


@dataclass(frozen=True)
class Done:
    """What one test was given, in how much CPU time (seconds), and pytest's output where it failed."""

    test: str
    examples: int
    seconds: float
    failure: str | None


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=60, help="CPU time of all tests together (%(default)g)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="tests at a time (%(default)s)")
    options = parser.parse_args()
    tests = collect()
    share = 60 * options.minutes / len(tests)
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(partial(fuzz, seconds=share), tests):
            results.append(done)
            name = done.test.rpartition("::")[2]
            print(f"{done.examples:>9} examples {done.seconds:>6.0f} s  {name}", flush=True)  # noqa: T201
    examples, seconds = sum(done.examples for done in results), sum(done.seconds for done in results)
    sys.stdout.write(f"{examples:>9} examples {seconds:>6.0f} s of CPU time in all\n")
    failures = [done.failure for done in results if done.failure]
    sys.stdout.write("\n".join(failures))
    return 1 if failures else 0


def collect() -> list[str]:
    """Return the node ids of the tests."""
    command = [*PYTEST, "-m", "hypothesis", "-k", "test_any", "--collect-only"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "::" in line]


def fuzz(test: str, seconds: float) -> Done:
    """Run one test in rounds for so much CPU time, or until it fails; the last round is not cut short."""
    used, examples = 0.0, 0
    while used < seconds:
        seed = f"--hypothesis-seed={secrets.randbits(63)}"
        command = [*PYTEST, test, "--hypothesis-profile=fuzz", "--hypothesis-show-statistics", seed]
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            said = output.read()
        used += usage.ru_utime + usage.ru_stime
        examples += sum(map(int, EXAMPLES.findall(said)))
        if process.returncode:
            return Done(test, examples, used, said)
    return Done(test, examples, used, None)


if __name__ == "__main__":
    sys.exit(main())
