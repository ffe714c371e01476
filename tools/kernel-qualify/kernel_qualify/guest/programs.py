"""Programs that the controller has put into the guest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path("/run")
"""The libraries that they need are there as well."""


def run(words: Sequence[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run one to its end, both of what it writes in one; subprocess.TimeoutExpired after so many seconds."""
    program = FOLDER / words[0]
    program.chmod(0o755)
    return subprocess.run(
        [str(program), *words[1:]],
        cwd=FOLDER,
        env={**os.environ, "LD_LIBRARY_PATH": str(FOLDER)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
