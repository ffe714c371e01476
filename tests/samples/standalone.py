"""For tests of what runs on measured hosts: an old Python to run it with, and what it imports."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path


def old_python() -> str | None:
    """Return a Python 3.9 that starts: a pyenv shim on PATH may not."""
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob("3.9.*/bin/python3.9"))
    check = ["-Ic", "import sys; sys.exit(sys.version_info[:2] != (3, 9))"]
    for candidate in filter(None, [*map(str, pyenv), shutil.which("python3.9")]):
        if subprocess.run([candidate, *check], env={}, capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module))
    return names
