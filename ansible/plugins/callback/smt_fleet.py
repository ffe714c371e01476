"""Notes what a playbook does to each host, and makes the rows of a run that smt-fleet does not lead."""

from __future__ import annotations

DOCUMENTATION = """
name: smt_fleet
type: aggregate
short_description: Notes what a playbook does to each host, and makes its row
description:
  - Appends events to C(state.jsonl) in the folder of a run. C(smt-fleet report) makes rows of them.
  - Where C(smt-fleet) does not lead the run, it also writes the plan and the summary into the folder, and
    prints the rows in Markdown.
  - Does nothing where no folder is set, unless the run is a job of AWX. A job has a folder that goes with it.
requirements:
  - the program C(smt-fleet), installed beside ansible-playbook
options:
  folder:
    description: Folder of the run; it is made if need be.
    type: path
    env:
      - name: SMT_FLEET_RUN
"""

import tempfile
from pathlib import Path
from typing import Any

from ansible import constants, context
from ansible.plugins.callback import CallbackBase

try:
    from smt_fleet.inventory import GROUP
    from smt_fleet.recorder import Recorder
    from smt_fleet.unled import Unled
except ImportError:
    # The playbooks refuse to run then, and name what is missing; a plugin that cannot be loaded would come
    # before them.
    MISSING = True
else:
    MISSING = False


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Hands what Ansible reports to the recorder."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "smt_fleet"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self.disabled = MISSING
        self.recorder: Recorder | None = None
        self.playbook = self.job = ""

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Note which playbook it is: of several, the one whose first play is about hosts."""
        if not self.recorder:
            self.playbook = playbook._file_name

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Note the hosts of the first play that is about them, and that those of earlier batches are done."""
        if self.recorder:
            self.recorder.batch()
        elif list(play.hosts) == [GROUP]:
            self._begin(play.get_variable_manager())

    def _begin(self, variables: Any) -> None:
        """Find the folder, and note the hosts; without a folder and a job of AWX, the plugin is off."""
        job, named = variables.extra_vars.get("awx_job_id", ""), self.get_option("folder")
        if not (named or job):
            self.disabled = True
            return
        self.job = f"AWX job {job}" if job else ""
        # Ansible removes its own folder when it ends.
        folder = Path(named or tempfile.mkdtemp(prefix="smt-fleet.", dir=constants.DEFAULT_LOCAL_TMP))
        folder.mkdir(parents=True, exist_ok=True)
        # Without the restriction, which would leave the first batch.
        hosts = [host.get_name() for host in variables._inventory.get_hosts(GROUP, ignore_restrictions=True)]
        self.unled, self.recorder = Unled(folder), Recorder(folder)
        given = context.CLIARGS
        self.unled.begin(self.playbook, given.get("inventory") or [], given.get("subset") or "", hosts)
        self.recorder.plan(hosts)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note a task that was done."""
        if self.recorder:
            task = result.task
            told = result.result
            self.recorder.result(_host(result), _roles(task), task.action, bool(task.delegate_to), told)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a task that failed."""
        if self.recorder and not ignore_errors:
            self.recorder.failed(_host(result), _roles(result.task), result.task.action, result.result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a host that did not answer."""
        if self.recorder:
            self.recorder.silent(_host(result), _roles(result.task), result.result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Note how the run ended, and report it where smt-fleet does not."""
        if not self.recorder:
            return
        self.recorder.end({host: stats.summarize(host) for host in stats.processed})
        if rows := self.unled.end(self.job):
            self._display.display(f"\n{rows}")


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
