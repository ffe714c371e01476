"""Where the documentation and its sources are, in this checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
#: The result files of the demo that the README and the tutorial show.
DEMO = DOCS / "examples/demo"
#: Those of a distribution's kernel against its package with the patches.
DISTRIBUTION = DOCS / "data/distribution/6.12-ppc64le-16"


def only(pattern: str) -> Path:
    """Return the one file below tools/ that matches; FileNotFoundError without exactly one."""
    found = sorted((ROOT / "tools").glob(f"**/{pattern}"))
    if len(found) != 1:
        raise FileNotFoundError(f"{len(found)} files match tools/**/{pattern}")
    return found[0]
