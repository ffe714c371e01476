"""A source tree in git: tag `base` is what was imported, one more tag per applied series.

Going from one tag to another touches only the files that differ, so kbuild recompiles only those.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from hotplug_common import process
from hotplug_common.kernel.series import Patch
from hotplug_host.errors import ExitCode, ToolError

BASE = "base"
IDENTITY = {
    "GIT_AUTHOR_NAME": "lpar-lab",
    "GIT_AUTHOR_EMAIL": "lpar-lab@localhost",
    "GIT_COMMITTER_NAME": "lpar-lab",
    "GIT_COMMITTER_EMAIL": "lpar-lab@localhost",
    "GIT_COMMITTER_DATE": "1970-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
SETTINGS = {
    # A tree of 1.5 GB that is read once and thrown away: compressing it costs more than it saves.
    "core.compression": "0",
    "gc.auto": "0",
    "core.autocrlf": "false",
    "advice.detachedHead": "false",
}


def import_tree(folder: Path) -> None:
    """Put everything in `folder` under git, as tag `base`."""
    _must(folder, "init", "-q", "-b", "lab")
    for key, value in SETTINGS.items():
        _must(folder, "config", key, value)
    _must(folder, "add", "-A", "-f", ".")
    _must(folder, "commit", "-q", "--date=1970-01-01T00:00:00Z", "-m", "Import")
    _must(folder, "tag", BASE)


def tag_of(patches: Sequence[Patch]) -> str:
    """Name the tag that holds the tree with `patches` applied."""
    if not patches:
        return BASE
    digest = hashlib.sha256()
    for patch in patches:
        digest.update(hashlib.sha256(patch.content).digest())
    return f"series-{digest.hexdigest()[:16]}"


def prepare(folder: Path, patches: Sequence[Patch], line: str) -> None:
    """Make the work tree that of tag `base` plus `patches`, in order; `line` is for messages.

    Raises ToolError (INPUT) that names the patch when one does not apply; the tree is then at tag `base`.
    """
    _abort_am(folder)
    applied = _longest_applied(folder, patches)
    _switch(folder, tag_of(patches[:applied]))
    if applied < len(patches):
        _apply(folder, patches, applied, line)
        _must(folder, "tag", tag_of(patches))


def _longest_applied(folder: Path, patches: Sequence[Patch]) -> int:
    """How many of the first patches have been applied before: a tag holds the tree with them."""
    tags = set(_git(folder, "tag").output.split())
    return next((count for count in range(len(patches), 0, -1) if tag_of(patches[:count]) in tags), 0)


def _apply(folder: Path, patches: Sequence[Patch], applied: int, line: str) -> None:
    """Apply what comes after the first `applied` patches, which the tree has."""
    for number, patch in enumerate(patches[applied:], start=applied + 1):
        result = _git(folder, "am", "-q", stdin=patch.content)
        if result.returncode == 0:
            continue
        _abort_am(folder)
        _switch(folder, BASE)
        raise ToolError(
            f"{patch.name} (patch {number} of {len(patches)}) does not apply to {line}: "
            f"{_why(result.output)}",
            f"refresh it against {line} and list it again in the series",
            ExitCode.INPUT,
        )


def _why(output: str) -> str:
    """Pick git's own reason out of what `git am` wrote."""
    errors = [line for line in output.splitlines() if line.startswith("error:")]
    return errors[0].removeprefix("error:").strip() if errors else process.last_line(output)


def _abort_am(folder: Path) -> None:
    """Leave a half-done `git am` of an interrupted run."""
    if (folder / ".git/rebase-apply").exists():
        _git(folder, "am", "--abort")
    (folder / ".git/index.lock").unlink(missing_ok=True)  # the caller holds the tree's lock


def _switch(folder: Path, tag: str) -> None:
    _must(folder, "reset", "-q", "--hard", tag)
    _must(folder, "clean", "-fdxq")


def _git(folder: Path, *arguments: str, stdin: bytes | None = None) -> process.Finished:
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return process.run(["git", "-C", folder, *arguments], env=env | IDENTITY, stdin=stdin)


def _must(folder: Path, *arguments: str) -> None:
    result = _git(folder, *arguments)
    if result.returncode != 0:
        raise ToolError(
            f"git {arguments[0]} in {folder} failed: {process.last_line(result.output)}",
            f"remove {folder.parent} and run again; it is fetched anew",
        )
