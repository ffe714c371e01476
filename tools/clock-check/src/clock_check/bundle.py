"""Packing what runs on a measured host into one file, with clock-probe for that machine inside."""

from __future__ import annotations

from pathlib import Path

from hotplug_timer import bundle

PACKAGE = Path(__file__).parent
MAIN = """\
import sys

from clock_check.target.command import main

sys.exit(main())
"""


def build_bundle(probe: bytes) -> bytes:
    """Return the zipapp with this probe. The same sources and probe give the same bytes."""
    sources = [PACKAGE / "__init__.py", *(PACKAGE / "target").glob("*.py")]
    own = {f"clock_check/{path.relative_to(PACKAGE)}": path.read_bytes() for path in sources}
    return bundle.pack(
        {
            "__main__.py": MAIN.encode(),
            "clock_check/clock-probe": probe,
            **bundle.target_files(),
            **own,
        }
    )
