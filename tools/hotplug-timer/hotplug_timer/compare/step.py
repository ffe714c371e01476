"""Print which of two ends a kernel behaves like: old, new, or skip where the samples do not tell.

Reads a JSON list of two comparisons, as `hotplug-timer compare --format json` prints them: one with the old
end as the baseline and one with the new.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from hotplug_host.entry import Parser, guarded

DIFFERENT = ("faster", "slower")
STEP = "step"


def verdict(comparison: dict[str, Any], operation: str) -> str:
    """Return the verdict of a comparison on the step."""
    rows = comparison["comparisons"]
    found = [row["verdict"] for row in rows if (row["operation"], row["variant"]) == (operation, STEP)]
    return str(found[0]) if found else "not measured"


def judge(against_old: str, against_new: str) -> str:
    """Return the end that the step is like: it differs from one, and shows no difference from the other."""
    differs = (against_old in DIFFERENT, against_new in DIFFERENT)
    return {(False, True): "old", (True, False): "new"}.get(differs, "skip")


def main(argv: Sequence[str] | None = None) -> int:
    """Read, judge and print; the reason goes to standard error. Returns the exit code."""
    parser = Parser(prog="judge-step", description=__doc__)
    parser.add_argument("operation")

    def work() -> None:
        operation = parser.parse_args(argv).operation
        old, new = (verdict(comparison, operation) for comparison in json.load(sys.stdin))
        sys.stdout.write(judge(old, new))
        sys.stderr.write(f"{operation}: {old} against the old end, {new} against the new")

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
