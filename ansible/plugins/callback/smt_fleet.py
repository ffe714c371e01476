"""Notes for smt-fleet what a playbook does to each host."""

from __future__ import annotations

DOCUMENTATION = """
name: smt_fleet
type: aggregate
short_description: Notes what a playbook does to each host
description:
  - Appends events to C(state.jsonl) in the folder of a run.
  - C(smt-fleet report) makes a row for each host of them.
  - Does nothing where no folder is set.
requirements:
  - the program C(smt-fleet), installed beside ansible-playbook
options:
  folder:
    description: Folder of the run.
    type: path
    env:
      - name: SMT_FLEET_RUN
"""

from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

from smt_fleet.inventory import GROUP
from smt_fleet.recorder import Recorder


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Hands what Ansible reports to the recorder."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "smt_fleet"
    CALLBACK_NEEDS_ENABLED = True

    def set_options(self, *arguments: Any, **words: Any) -> None:
        """Find the folder; without one the plugin is off."""
        super().set_options(*arguments, **words)
        folder = self.get_option("folder")
        self.disabled = not folder
        self.recorder = Recorder(Path(folder)) if folder else None
        self.planned = False

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Note the hosts of the first play that is about them, and that those of earlier batches are done."""
        if self.planned:
            self.recorder.batch()
        elif list(play.hosts) == [GROUP]:
            self.planned = True
            inventory = play.get_variable_manager()._inventory
            hosts = inventory.get_hosts(GROUP, ignore_restrictions=True)  # which would leave the first batch
            self.recorder.plan([host.get_name() for host in hosts])

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note a task that was done."""
        task = result.task
        self.recorder.result(_host(result), _roles(task), task.action, bool(task.delegate_to), result.result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a task that failed."""
        if not ignore_errors:
            self.recorder.failed(_host(result), _roles(result.task), result.task.action, result.result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a host that did not answer."""
        self.recorder.silent(_host(result), _roles(result.task), result.result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Note how the run ended."""
        self.recorder.end({host: stats.summarize(host) for host in stats.processed})


def _host(result: Any) -> str:
    name: str = result.host.get_name()
    return name


def _roles(task: Any) -> list[str]:
    """Return the roles that a task is part of, each as ROLE/ENTRY_POINT, the outermost first."""
    names: list[str] = []
    node = task
    while node is not None:
        role = getattr(node, "_role", None)
        if role is not None:
            entry = f"{role.get_name(include_role_fqcn=False)}/{role._from_files.get('tasks', 'main')}"
            if entry not in names:
                names.insert(0, entry)
        node = getattr(node, "_parent", None)
    return names
