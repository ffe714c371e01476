"""Runs playbooks for the tests: Ansible is imported once, and each run is a fork of that process.

Reads one job a line from standard input, as JSON: `arguments` of ansible-playbook, `environment`, `directory`
and `output`, the file for all that is printed. Writes the exit code when it is over.

With arguments it is ansible-playbook itself, as smt-fleet starts it: its tasks are forks as well.
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

from ansible import constants
from ansible._internal._task import TaskContext
from ansible.cli.playbook import main
from ansible.executor.process.worker import WorkerProcess
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.parsing.dataloader import DataLoader
from ansible.plugins import loader, strategy
from jinja2 import Environment

from tests import ROOT
from tests.fakes import playmodules

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
#: Actions that only compute.
COMPUTED = frozenset(
    f"{prefix}{name}"
    for name in [
        "assert",
        "debug",
        "fail",
        "include_role",
        "include_tasks",
        "set_fact",
        "validate_argument_spec",
    ]
    for prefix in ("", "ansible.builtin.")
)


class Worker(WorkerProcess):
    """A worker that does the task of a host alone, or one that only computes, at once: processes are dear."""

    done = False

    def start(self) -> None:
        """Start the task, or do it."""
        alone = len(self._task_vars.get("ansible_play_hosts_all", ())) == 1
        if not alone and (self._task.action not in COMPUTED or self._task.delegate_to):
            super().start()
            return
        # A copy: in a process of its own, what becomes of a task's attributes is not seen by others either.
        task = self._task.copy(exclude_parent=True, exclude_tasks=True)
        task._parent = self._task._parent
        with TaskContext(task):
            answer = TaskExecutor(
                self._host,
                task,
                self._task_vars,
                self._play_context,
                self._loader,
                self._shared_loader_obj,
                self._final_q,
                self._variable_manager,
            ).run()
        self.done = True
        result = _RawTaskResult(host=self._host, task=task, return_data=answer, task_fields=task.dump_attrs())
        self._final_q.send_task_result(result)

    def is_alive(self) -> bool:
        """Whether it has more to do."""
        return not self.done and super().is_alive()

    def close(self) -> None:
        """Let go of the process."""
        if not self.done:
            super().close()


def remember_templates() -> None:
    """Compile each template once: Ansible forgets them with the task."""
    compile_anew, known = Environment.compile, {}

    def compile_once(self: Environment, source: Any, *rest: Any, **options: Any) -> Any:
        if not isinstance(source, str):
            return compile_anew(self, source, *rest, **options)
        key = (type(self), str(source), rest, tuple(sorted(options.items())), self.block_start_string)
        if key not in known:
            known[key] = compile_anew(self, source, *rest, **options)
        return known[key]

    Environment.compile = compile_once


def remember_files() -> None:
    """Parse the collection's files once: Ansible forgets them with the run, and gives out copies anyway."""
    known, loader_of = {}, DataLoader.__init__
    collection = ROOT / "ansible"
    for path in [*collection.glob("playbooks/*.yml"), *collection.glob("roles/*/*/**/*.yml")]:
        known[str(path)] = DataLoader().load_from_file(str(path), unsafe=True, trusted_as_template=True)

    def load(self: DataLoader) -> None:
        loader_of(self)
        self._FILE_CACHE.update(known)

    DataLoader.__init__ = load


def warm() -> None:
    """Import what every run, and every task of it, would import."""
    loader.init_plugin_loader()
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    for plugins, names in PLUGINS.items():
        for name in names.split():
            plugins.get(name, class_only=True)
    for plugins in (loader.filter_loader, loader.test_loader):
        list(plugins.all())
    strategy.WorkerProcess = Worker
    constants.DEFAULT_INTERNAL_POLL_INTERVAL = 0.005
    remember_templates()
    playmodules.warm()
    # What is there stays, and looking at it would only copy memory into each of the forks.
    gc.collect()
    gc.freeze()


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
    remember_files()
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
    if sys.argv[1:]:
        warm()
        main(["ansible-playbook", *sys.argv[1:]])
    else:
        serve()
