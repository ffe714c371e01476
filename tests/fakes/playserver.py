"""Runs playbooks for the tests: Ansible is imported once, and each run is a fork of that process.

Reads one job a line from standard input, as JSON: `arguments` of ansible-playbook, `environment`, `directory`
and `output`, the file for all that is printed. Writes the exit code when it is over.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from ansible.cli.playbook import main
from ansible.plugins import loader

#: What the playbooks use. What is not here would be imported anew by every task.
PLUGINS = {
    loader.action_loader: "assert command copy debug fail fetch gather_facts include_role normal"
    " package pause raw set_fact set_stats template validate_argument_spec",
    loader.cache_loader: "memory",
    loader.callback_loader: "default",
    loader.connection_loader: "local ssh",
    loader.inventory_loader: "auto host_list ini script toml yaml",
    loader.lookup_loader: "file fileglob pipe template",
    loader.shell_loader: "sh",
    loader.strategy_loader: "linear",
}


def warm() -> None:
    """Import what every run, and every task of it, would import."""
    loader.init_plugin_loader()
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    for plugins, names in PLUGINS.items():
        for name in names.split():
            plugins.get(name, class_only=True)
    for plugins in (loader.filter_loader, loader.test_loader):
        list(plugins.all())
    # What is there stays, and looking at it would only copy memory into each of the forks.
    gc.collect()
    gc.freeze()
    gc.disable()


def play(job: dict[str, Any]) -> int:
    """Be ansible-playbook; returns the exit code."""
    os.chdir(job["directory"])
    os.environ.clear()
    os.environ.update(job["environment"])
    tempfile.tempdir = None
    with Path(os.devnull).open() as null, Path(job["output"]).open("w") as output:
        os.dup2(null.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    try:
        main(["ansible-playbook", *job["arguments"]])
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def serve() -> None:
    """Do the jobs, one after the other, until no more can come."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    warm()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 250
            try:
                answers.close()
                code = play(json.loads(line))
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    serve()
