"""Commits of a git tree as patches, in place of the series of a variant: one patch each, oldest first."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hotplug_common import process
from hotplug_common.kernel.series import Patch
from hotplug_host.errors import ExitCode, ToolError

SEPARATOR = ".."
#: The user's configuration for mails must not change the patches: their digests name kernels.
FORMAT = (
    *("--quiet", "--no-numbered", "--zero-commit", "--no-signature", "--no-cover-letter", "--no-attach"),
    *("--no-thread", "--no-notes", "--full-index", "--binary"),
)


def read(tree: Path, span: str) -> list[Patch]:
    """Return the commits of OLD..NEW as patches, named by number and subject.

    Raises ToolError: USAGE for what is no range of the tree, INPUT for one that is no series: empty, with
    merges, with commits that change nothing, or whose older end is no ancestor of the newer one.
    """
    older, separator, newer = span.partition(SEPARATOR)
    if not (older and separator and newer) or newer.startswith("."):
        raise ToolError(
            f"the range is '{span}'", f"give OLD..NEW, two commits or tags of {tree}", ExitCode.USAGE
        )
    first, last = (_commit(tree, name) for name in (older, newer))
    ends = f"{first}..{last}"
    if _git(tree, "merge-base", "--is-ancestor", first, last).returncode:
        raise _no_series(
            f"{span} is not linear: {older} is no ancestor of {newer}", "rebase, or name other ends"
        )
    if _lines(tree, "rev-list", "--merges", "--max-count=1", ends):
        raise _no_series(f"{span} is not linear: it has merges", f"rebase it onto {older} first")
    found = _lines(tree, "rev-list", ends)
    if not found:
        raise _no_series(f"{span} is empty", "name the newer end last")
    if len(found) != len(_lines(tree, "rev-list", ends, "--", ":/")):
        raise _no_series(
            f"{span} has commits that change nothing", "leave them out with git rebase --no-keep-empty"
        )
    with tempfile.TemporaryDirectory() as folder:
        _lines(tree, "format-patch", *FORMAT, "--output-directory", folder, ends)
        return [Patch(path.name, tree, path.read_bytes()) for path in sorted(Path(folder).iterdir())]


def _commit(tree: Path, name: str) -> str:
    found = _git(tree, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise ToolError(
            f"{tree} has no commit '{name}'", "name a git tree and two commits or tags of it", ExitCode.USAGE
        )
    return found.output.strip()


def _no_series(what: str, remedy: str) -> ToolError:
    return ToolError(what, remedy, ExitCode.INPUT)


def _lines(tree: Path, *arguments: str) -> list[str]:
    done = _git(tree, *arguments)
    if done.returncode:
        raise ToolError(f"git {arguments[0]} in {tree} failed: {process.last_line(done.output)}")
    return done.output.split()


def _git(tree: Path, *arguments: str) -> process.Finished:
    """Run git on this tree even under a hook, with the configuration that may declare the tree safe."""
    env = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith("GIT_CONFIG")
    }
    return process.run(["git", "-C", tree, *arguments], env=env)
