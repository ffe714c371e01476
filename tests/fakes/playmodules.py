"""Runs a play's Python modules on local connections in forks that have imported Ansible.

As Ansible does it, a module is packed, copied, started by a Python that compiles the packed code, and
deleted: that is most of the time of a task. The module, its parameters and its answer are the same here.
So are they for the steps of our own program on hosts, which have imported that.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ansible.modules
from ansible.executor.module_common import _BuiltModule
from ansible.module_utils._internal._ansiballz import _loader
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.plugins.action import ActionBase

from hotplug_host.agent import command
from tests.fakes.fake_lpar import PYTHON, SSH

#: What the playbooks use. What is not here would be imported anew by every task.
MODULES = "command copy file find getent setup slurp stat systemd_service tempfile"
PROFILE = "legacy"
#: The program's steps that are forks; what starts a unit of a host takes its own file there.
STEPS = frozenset(command.STEPS) - {"smt-unit"} | {"preflight"}

built_anew = ActionBase._configure_module
run_anew = ActionBase._low_level_execute_command
is_piped = ActionBase._is_pipelining_enabled


class Module(bytes):
    """A module and its parameters, where Ansible has the packed code."""

    name: str
    parameters: bytes


def warm() -> None:
    """Import what modules import, and have those run in forks."""
    for name in MODULES.split():
        importlib.import_module(f"ansible.modules.{name}")
    for name in frozenset(command.STEPS) & STEPS:
        importlib.import_module(f"hotplug_host.agent.{name.replace('-', '_')}")
    for name in ("timing.command", "preflight.preflight"):
        importlib.import_module(f"hotplug_host.{name}")
    ActionBase._configure_module = configure
    ActionBase._low_level_execute_command = execute
    ActionBase._is_pipelining_enabled = lambda self, *rest: here(self) or is_piped(self, *rest)


def here(action: ActionBase) -> bool:
    """Whether what an action does is done on this machine, and waited for."""
    local = action._connection.transport == "local" or reached_root(action) is not None
    return local and not action._task.async_val


def reached_root(action: ActionBase) -> Path | None:
    """Return the root of a fake host that the stand-in for ssh reaches at once; None of other connections."""
    if action._connection.transport != "ssh":
        return None
    ssh = Path(action._connection.get_option("ssh_executable"))
    root = ssh.parent.parent
    stands_in = ssh.is_file() and ssh.read_bytes() == SSH.format(root=root, network="").encode()
    return root if stands_in and not (root / "down").exists() else None


def configure(
    action: ActionBase, module_name: str, module_args: Mapping[str, Any], task_vars: Mapping[str, Any]
) -> tuple[_BuiltModule, str]:
    """Find a module; its code stays where it is."""
    if not here(action):
        return built_anew(action, module_name, module_args, task_vars)
    found = action._shared_loader_obj.module_loader.find_plugin_with_context(
        module_name, ".py", collection_list=action._task.collections
    )
    path = Path(found.plugin_resolved_path or "")
    if path.parent not in map(Path, ansible.modules.__path__):
        return built_anew(action, module_name, module_args, task_vars)
    module = Module()
    module.name = f"ansible.modules.{path.stem}"
    encoder = get_module_encoder(PROFILE, Direction.CONTROLLER_TO_MODULE)
    module.parameters = json.dumps({"ANSIBLE_MODULE_ARGS": module_args}, cls=encoder).encode()
    built = _BuiltModule(
        b_module_data=module, module_style="new", shebang="#!python", serialization_profile=PROFILE
    )
    return built, str(path)


def execute(action: ActionBase, cmd: str, *rest: Any, in_data: Any = None, **options: Any) -> dict[str, Any]:
    """Run a module or a step in a fork, anything else as ever; returns its exit code and what it printed."""
    environment = on_path(action)
    if isinstance(in_data, Module):
        action._compute_environment_string(environment)
        return forked(lambda: be_module(in_data, environment, action._loader.get_basedir()))
    if in_data and here(action) and (step := step_of(cmd, environment)):
        return forked(lambda: be_step(*step))
    return run_anew(action, cmd, *rest, in_data=in_data, **options)


def on_path(action: ActionBase) -> dict[str, str]:
    """Return what the stand-in for ssh has in its environment."""
    root = reached_root(action)
    return {"PATH": f"{root / 'bin'}:{os.environ['PATH']}"} if root else {}


def forked(be: Callable[[], int]) -> dict[str, Any]:
    """Return what a process that is something answered."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(0)
                os.dup2(stdout.fileno(), 1)
                os.dup2(stderr.fileno(), 2)
                code = be()
            finally:
                os._exit(code)
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        printed: dict[str, Any] = {"rc": os.waitstatus_to_exitcode(status)}
        for name, file in (("stdout", stdout), ("stderr", stderr)):
            file.seek(0)
            printed[name] = file.read().decode(errors="replace")
    return printed | {f"{name}_lines": printed[name].splitlines() for name in ("stdout", "stderr")}


def step_of(cmd: str, environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]] | None:
    """Return the environment and the words of a step of our program; None of any other command.

    A host whose Python a test has replaced runs that.
    """
    words = shlex.split(cmd)
    given = [word for word in words[:1] if "=" in word]
    python, dash, *rest = words[len(given) :] + [""] * 3
    found = shutil.which(python, path=environment.get("PATH", os.environ["PATH"]))
    if dash != "-" or rest[0] not in STEPS or not is_ours(Path(found or "/")):
        return None
    return {**environment, **dict(word.split("=", 1) for word in given)}, [word for word in rest if word]


def is_ours(python: Path) -> bool:
    """Whether a host's Python is the one that it was made with."""
    return python.is_file() and python.read_text() == PYTHON


def be_step(environment: Mapping[str, str], words: list[str]) -> int:
    """Be the program on the host; returns its exit code."""
    os.environ.update(environment)
    with (
        open(0, closefd=False) as sys.stdin,
        open(1, "w", closefd=False) as sys.stdout,
        open(2, "w", closefd=False) as sys.stderr,
    ):
        return command.main(words)


def be_module(module: Module, environment: Mapping[str, str], folder: str) -> int:
    """Be the module, in a process of its own; returns its exit code."""
    os.environ.update(environment)
    os.chdir(folder)
    with open(1, "w", closefd=False) as sys.stdout, open(2, "w", closefd=False) as sys.stderr:
        try:
            _loader.run_module(
                json_params=module.parameters,
                profile=PROFILE,
                module_fqn=module.name,
                modlib_path="",
                extensions={},
            )
        except SystemExit as ending:
            return ending.code if isinstance(ending.code, int) else 1
    return 1
