"""Runs the collection's modules on hosts, each by one remote command."""

from __future__ import annotations

import getpass
import os
import platform
import secrets
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.parsing.plugin_docs import read_docstring
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import module_loader

try:
    from hotplug_common import hostmodules, process
    from hotplug_timer.bundle import build_script
except ImportError as error:
    MISSING = f"{error}; install hotplug-acceleration beside ansible-playbook"
else:
    MISSING = ""

TOLD_OF_A_FAULT = ("worse",)
"""What a failed task returns of the program's answer beside the message."""
OPTION_KEYS = ("type", "elements", "required", "default", "choices")


class ActionModule(ActionBase):  # type: ignore[misc]
    """Feeds the host's program to its python3 by standard input, and returns the JSON object that it prints.

    A module of Ansible's own kind costs an emulated host four seconds and leaves files while it runs, which a
    host that is being measured does not need; this costs one second and none. A lost connection is a failure
    here, not a host that drops out of the play, so that the rescue of a play runs.
    """

    TRANSFERS_FILES = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module that the task names."""
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        if MISSING:
            raise AnsibleActionFail(MISSING)
        name = self._task.action.rpartition(".")[2]
        module = hostmodules.MODULES[name]
        _, options = self.validate_argument_spec(self._options())
        task = self._described(variables)
        host = variables.get("inventory_hostname", "the host")
        try:
            with process.no_longer_than(options["answer_timeout"]):
                ran = self._low_level_execute_command(
                    self._command(variables, task, module.arguments(options, task)), in_data=_program()
                )
        except AnsibleConnectionFailure as fault:
            return {**result, **_failed(module.fault(host, options, str(fault)), reached=False)}
        except process.Expired:
            fault = f"no answer within {options['answer_timeout']} s"
            return {**result, **_failed(module.fault(host, options, fault), reached=False)}
        answer = hostmodules.answer_of(ran["rc"], ran["stdout"], ran["stderr"])
        if answer.fault:
            failure = _failed(module.fault(host, options, answer.fault, answer.values), reached=True)
            told = {key: answer.values[key] for key in TOLD_OF_A_FAULT if key in answer.values}
            return {**result, **failure, **told, "rc": ran["rc"]}
        changed = module.changes and bool(answer.values.get("changed"))
        result.update(answer.values, changed=changed, rc=ran["rc"])
        if name == "run_lock":
            held = options["action"] == "acquire" and not task.check
            result.update(task.lock, held=held, lease=hostmodules.lease(options, task))
        if (run := hostmodules.run_after(name, options, task)) is not None:
            result["ansible_facts"] = {"host_run": run}
        if name == "host_state":
            result["ansible_facts"] = {
                "host_state": answer.values["facts"],
                "host_judgement": {key: answer.values[key] for key in ("verdict", "reasons")},
            }
        if self._task.diff and {"before", "now"} <= set(answer.values):
            result["diff"] = {
                key: f"{answer.values[of]}\n" for key, of in (("before", "before"), ("after", "now"))
            }
        return result

    def _options(self) -> dict[str, Mapping[str, Any]]:
        """Return the options that the module documents, as an argument spec."""
        context = module_loader.find_plugin_with_context(
            self._task.action, collection_list=self._task.collections
        )
        documented = read_docstring(context.plugin_resolved_path)["doc"]["options"]
        own = {
            option: {key: value[key] for key in OPTION_KEYS if key in value}
            for option, value in documented.items()
        }
        return {**own, **hostmodules.SHARED}

    def _described(self, variables: Mapping[str, Any]) -> hostmodules.Task:
        now = datetime.now(UTC)
        plain = {
            name: self._templar.template(variables[name])
            for name in ("awx_job_id", "awx_user_name", "fleet_change", "hotplug_sysroot")
            if name in variables
        }
        return hostmodules.Task(
            check=self._task.check_mode,
            run=str((variables.get("ansible_facts") or {}).get("host_run", "")),
            sysroot=str(plain.get("hotplug_sysroot") or "/"),
            turns=hostmodules.turns(
                len(variables.get("ansible_play_batch", [])), int(variables.get("ansible_forks", 1))
            ),
            lock={
                "token": f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
                "owner": hostmodules.lock_owner(plain, f"{getpass.getuser()}@{platform.node()}"),
                "started": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            },
        )

    def _command(self, variables: Mapping[str, Any], task: hostmodules.Task, arguments: list[str]) -> str:
        python = self._templar.template(variables.get("ansible_python_interpreter") or "python3")
        return hostmodules.environment(task) + shlex.join([python, "-", *arguments])


def _failed(message: str, *, reached: bool) -> dict[str, Any]:
    return {"failed": True, "msg": message, "reached": reached, "rc": -1}


def _program() -> bytes:
    """Return what travels to the host; it is made once for all tasks of a play."""
    kept = Path(constants.DEFAULT_LOCAL_TMP) / "host-program"
    try:
        return kept.read_bytes()
    except FileNotFoundError:
        program: bytes = build_script()
    draft = kept.with_name(f"{kept.name}.{os.getpid()}")
    draft.write_bytes(program)
    draft.replace(kept)
    return program
