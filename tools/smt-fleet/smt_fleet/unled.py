"""A run that ansible-playbook or AWX started by itself: it gets the rows that smt-fleet makes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from hotplug_common import lock
from hotplug_common.files import write_files
from hotplug_common.tables import to_markdown
from smt_fleet import runs, summary
from smt_fleet.outcome import outcome
from smt_fleet.runs import Plan

#: What a run is called that a playbook does: as smt-fleet calls it, or as the playbook is named.
COMMANDS = {"preflight": "check"}


class Unled:
    """What smt-fleet would do around a playbook; nothing where it does so itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plan: Plan | None = None
        self._lock = ExitStack()

    def begin(self, playbook: str, inventories: Sequence[str], limit: str, hosts: Sequence[str]) -> None:
        """Hold the folder, and write the plan. A run that is there goes on with these HOSTS."""
        if not self._lock.enter_context(lock.held_if_free(self.folder / runs.LOCK)):
            return
        name = Path(playbook).stem
        self._plan = Plan(
            COMMANDS.get(name, name), Path(playbook).name, list(inventories), limit=limit, unled=True
        )
        if (self.folder / runs.STATE).exists():
            runs.drop_cut_line(self.folder)
            runs.note(self.folder, "resumed", hosts=list(hosts))
        runs.write_plan(self.folder, self._plan)

    def end(self, job: str) -> str:
        """Write the summary, and return it in Markdown; it is empty where smt-fleet does that.

        JOB is what the run is called, where its folder does not name it.
        """
        with self._lock:
            if self._plan is None:
                return ""
            found = outcome(runs.events(self.folder), undoes=self._plan.undoes, over=True)
            name = job or self.folder.name
            write_files(self.folder, summary.files(name, found), "summary")
        return to_markdown(summary.sheet(name, found))
