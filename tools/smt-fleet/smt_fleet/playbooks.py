"""Where the playbooks are: in the checkout of this program, or in the collection that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hotplug_common import process
from hotplug_host import __version__
from hotplug_host.errors import ExitCode, ToolError

CHECKOUT = Path(__file__).resolve().parents[3] / "ansible"
COLLECTION = "smt.hotplug"
CONFIG = "ANSIBLE_CONFIG"
COLLECTIONS = "ANSIBLE_COLLECTIONS_PATH"
DEFAULT_COLLECTIONS = "~/.ansible/collections:/usr/share/ansible/collections"
"""Ansible's own."""


def program(name: str) -> str:
    """Return the path of one of Ansible's programs, which are where this Python is."""
    return str(Path(sys.executable).with_name(name))


def find() -> Path:
    """Return the folder of the playbooks, roles and settings.

    Raises ToolError (ENVIRONMENT) outside a checkout without a collection of this program's version.
    """
    if (CHECKOUT / "galaxy.yml").is_file():
        return CHECKOUT
    command = [program("ansible-galaxy"), "collection", "list", COLLECTION, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    step = f"ansible-galaxy collection install smt-hotplug-{__version__}.tar.gz"
    found = {} if done.returncode else json.loads(done.stdout)
    if not found:
        why = f" ({process.last_line(done.stderr)})" if done.returncode else ""
        raise ToolError(f"the collection {COLLECTION} is not installed{why}", step, ExitCode.ENVIRONMENT)
    # The first one is the one that Ansible takes.
    place, names = next(iter(found.items()))
    version = names[COLLECTION]["version"]
    if version != __version__:
        raise ToolError(
            f"{COLLECTION} in {place} is {version}, this program {__version__}", step, ExitCode.ENVIRONMENT
        )
    return Path(place, *COLLECTION.split("."))


def environment(where: Path, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for the playbooks in WHERE: its settings, unless the user's own are there."""
    theirs = given.get(CONFIG, "")
    config = theirs if theirs and Path(theirs).exists() else str(where / "ansible.cfg")
    if where == CHECKOUT:
        return {**given, CONFIG: config}
    # The settings by which the collection was found may be others.
    paths = [str(where.parents[2]), given.get(COLLECTIONS) or DEFAULT_COLLECTIONS]
    return {**given, CONFIG: config, COLLECTIONS: os.pathsep.join(paths)}
