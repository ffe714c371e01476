"""Say which of two ends a kernel behaves like: old, new, or skip where the samples do not tell.

Reads a list of two comparisons, as `hotplug-timer compare --format json` prints them, one with the old end as
the baseline and one with the new. Runs on the controller.
"""

import json
import sys
from typing import Any

DIFFERENT = ("faster", "slower")
STEP = "step"


def verdict(comparison: dict[str, Any], operation: str) -> str:
    """Return what a comparison says of the step."""
    rows = comparison["comparisons"]
    found = [row["verdict"] for row in rows if (row["operation"], row["variant"]) == (operation, STEP)]
    return str(found[0]) if found else "not measured"


def judge(against_old: str, against_new: str) -> str:
    """Return the end that the step is like: it differs from one, and shows no difference from the other."""
    differs = (against_old in DIFFERENT, against_new in DIFFERENT)
    return {(False, True): "old", (True, False): "new"}.get(differs, "skip")


def main() -> int:
    """Read, judge and print; why goes to standard error."""
    operation = sys.argv[1]
    old, new = (verdict(comparison, operation) for comparison in json.load(sys.stdin))
    sys.stdout.write(judge(old, new))
    sys.stderr.write(f"{operation}: {old} against the old end, {new} against the new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
