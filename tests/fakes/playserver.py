"""Runs playbooks for the tests: Ansible is imported once, and each run is a fork of that process.

Reads one job a line from standard input, as JSON: `arguments` of ansible-playbook, `environment`, `directory`
and `output`, the file for all that is printed. Writes the exit code when it is over.

With arguments it is ansible-playbook itself, as smt-fleet starts it: its tasks are forks as well.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import json
import marshal
import os
import pickle
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from ansible import constants
from ansible._internal._task import TaskContext
from ansible.cli.playbook import main
from ansible.executor.process.worker import WorkerProcess
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.parsing.dataloader import DataLoader
from ansible.plugins import loader, strategy
from jinja2.environment import Environment, TemplateExpression

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
            compiled.read()
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


class Compiled:
    """The code of templates, in a file that processes share: Ansible forgets it with the task."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._read = 0
        self._codes: dict[Any, CodeType] = {}

    def read(self) -> None:
        """Read what others have added; a line that is being written is read the next time."""
        added = os.pread(self._file, os.fstat(self._file).st_size - self._read, self._read)
        whole = added[: added.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            key, code = marshal.loads(base64.b64decode(line))  # noqa: S302 - our own
            self._codes[key] = code

    def once(self, key: Any, compile_anew: Callable[[], CodeType]) -> CodeType:
        """Return the code of a key; compile it where it is not known, and add it for others."""
        if key not in self._codes:
            self._codes[key] = compile_anew()
            os.write(self._file, base64.b64encode(marshal.dumps((key, self._codes[key]))) + b"\n")
        return self._codes[key]


compiled = Compiled(os.environ["PLAYSERVER_TEMPLATES"])


def remember_templates() -> None:
    """Compile each template and each expression once."""
    compile_anew, express_anew, nodes = Environment.compile, Environment.compile_expression, []

    def compile_once(self: Environment, source: Any, *rest: Any, **options: Any) -> Any:
        if not isinstance(source, str):
            nodes.append(compile_anew(self, source, *rest, **options))
            return nodes[-1]
        key = (type(self).__name__, self.block_start_string, str(source), repr(rest), repr(options))
        return compiled.once(key, lambda: compile_anew(self, source, *rest, **options))

    def express_once(self: Environment, source: str, *rest: Any) -> TemplateExpression:
        def express() -> CodeType:
            express_anew(self, source)
            return nodes.pop()

        code = compiled.once((type(self).__name__, str(source)), express)
        return TemplateExpression(self.template_class.from_code(self, code, self.make_globals(None)), *rest)

    Environment.compile, Environment.compile_expression = compile_once, express_once


def remember_plugins() -> None:
    """Look for a filter, a test and the paths of connections once: Ansible does for each task."""
    for plugins in (loader.filter_loader, loader.test_loader):
        list(plugins.all())
        plugins.get = functools.cache(plugins.get)
    for path in (ROOT / "ansible/plugins/filter").glob("*.py"):
        # smt-fleet's playbooks bring the collection along.
        with contextlib.suppress(KeyError):
            for name in runpy.run_path(str(path))["FilterModule"]().filters():
                loader.filter_loader.get(f"smt.hotplug.{name}")
    all_anew = loader.connection_loader.all
    paths = list(all_anew(path_only=True))
    loader.connection_loader.all = lambda **given: (
        paths if given == {"path_only": True} else all_anew(**given)
    )


def remember_files() -> None:
    """Parse the collection's files once: Ansible forgets them with the run. Copies of them are unpickled."""
    known, load_anew = {}, DataLoader.load_from_file
    collection = ROOT / "ansible"
    for path in [*collection.glob("playbooks/*.yml"), *collection.glob("roles/*/*/**/*.yml")]:
        parsed = DataLoader().load_from_file(str(path), unsafe=True, trusted_as_template=True)
        known[str(path)] = pickle.dumps(parsed)

    def load(self: DataLoader, file_name: str, *rest: Any, **options: Any) -> Any:
        if pickled := known.get(self.path_dwim(file_name)):
            return pickle.loads(pickled)  # noqa: S301 - our own
        return load_anew(self, file_name, *rest, **options)

    DataLoader.load_from_file = load


def warm() -> None:
    """Import what every run, and every task of it, would import."""
    loader.init_plugin_loader()
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    for plugins, names in PLUGINS.items():
        for name in names.split():
            plugins.get(name, class_only=True)
    remember_plugins()
    strategy.WorkerProcess = Worker
    constants.DEFAULT_INTERNAL_POLL_INTERVAL = 0.005
    remember_templates()
    playmodules.warm()
    # What is there stays, runs are short, and looking at it would only copy memory into each of the forks.
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
    remember_files()
    warm()
    for line in sys.stdin:
        compiled.read()
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
