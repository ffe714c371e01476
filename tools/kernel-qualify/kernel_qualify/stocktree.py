"""Files of a line's stock kernel, whatever the lab's tree is at right now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hotplug_common import process
from hotplug_common.kernel import source, tree
from hotplug_common.paths import Paths
from hotplug_common.ui import Progress
from hotplug_host.errors import ToolError


def file(line: str, name: str, paths: Paths) -> bytes:
    """Return the content of a file; ToolError (ENVIRONMENT) when git cannot give it."""
    return _git(["show", f"{tree.BASE}:{name}"], line, paths).encode()


def extract(line: str, names: Sequence[str], folder: Path, paths: Paths) -> None:
    """Put files and folders into `folder`; ToolError (ENVIRONMENT) when git or tar cannot."""
    archive = folder / "stock.tar"
    _git(["archive", "-o", str(archive), tree.BASE, *names], line, paths)
    done = process.run(["tar", "-x", "-C", folder, "-f", archive])
    archive.unlink()
    if done.returncode:
        raise ToolError(f"tar failed: {process.last_line(done.output)}", "check the free disk space")


def _git(words: Sequence[str], line: str, paths: Paths) -> str:
    newest = (source.cached(line, paths) or [source.obtain(line, paths, Progress())])[-1]
    done = process.run(["git", "-C", newest.tree, *words], merge_errors=False)
    if done.returncode:
        raise ToolError(
            f"git {words[0]} failed in {newest.tree}: {process.last_line(done.errors)}",
            f"remove {newest.folder} and run again; it is fetched anew",
        )
    return done.output
