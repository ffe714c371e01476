"""Notes what a playbook does to each host; the callback plugin of Ansible calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotplug_common.hostmodules import MODULES
from smt_fleet import runs

#: Facts that tell what became of a host.
FACTS = (
    "ab_compared",
    "boot_proof_seen",
    "fleet_begun",
    "fleet_done",
    "fleet_late",
    "preflight_record",
    "regress_failure",
    "regress_judged",
    "smt_switch_holds",
)
#: Modules whose answers do, and what of them is kept: the rest is long.
ANSWERS = {
    "host_health": ("worse",),
    "host_state": ("facts",),
    "run_lock": ("held", "lease"),
    "smt_state": ("online", "level"),
    "smt_switch": ("changed", "online", "level", "seconds"),
}
#: What of a host's facts is kept.
STATE_KEYS = ("release", "cpus", "smt")
#: The phase that the tasks of an entry point of a role are; what is not here is part of its caller's phase.
PHASES = {
    **{f"ab/{entry}": "measure" for entry in ("main", "running", "run", "measure", "report", "rollback")},
    "ab/check": "check",
    "ab/regress_check": "check",
    "boot/before": "verify",
    "boot/kexec": "change",
    "boot/proof": "verify",
    "boot/reboot": "change",
    "boot/restore": "restore",
    "deploy/main": "change",
    "deploy/undo": "change",
    "fleet/begin": "wait",
    "fleet/end": "wait",
    "preflight/main": "check",
    "preflight/survey": "check",
    "preflight/table": "check",
    "smt/fetch": "measure",
    "smt/switch": "change",
    "smt/timing": "measure",
}
#: Modules whose step on the host is a sign of life there, where the run has the host.
RENEWING = frozenset(MODULES) - {"run_lock"}
#: Tasks that the controller does by itself, whether the host answers or not.
OF_CONTROLLER = (
    *("assert", "debug", "fail", "include_role", "include_tasks", "meta", "pause", "set_fact", "set_stats"),
    "validate_argument_spec",
)


class Recorder:
    """Writes events of a run into its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._phases: dict[str, str] = {}
        self._silent: set[str] = set()
        self._hosts: frozenset[str] = frozenset()

    def plan(self, hosts: Sequence[str]) -> None:
        """Note which hosts the run is for."""
        self._hosts = frozenset(hosts)
        runs.note(self.folder, "planned", hosts=list(hosts))

    def batch(self) -> None:
        """Note that hosts begin together: what happened to the ones before them has happened."""
        runs.note(self.folder, "batch")

    def result(
        self, host: str, roles: Sequence[str], action: str, delegated: bool, said: Mapping[str, Any]
    ) -> None:
        """Note a task that was done: ROLES are those it is part of, each with its entry point."""
        self._phase(host, roles)
        for name, value in (said.get("ansible_facts") or {}).items():
            if name in FACTS:
                kept = _medians(value) if name == "ab_compared" else value
                self._note(host, "fact", name=name, value=kept)
        module = self._answer(host, action, said)
        asked = not delegated and module not in OF_CONTROLLER
        reached = not said.get("unreachable") and said.get("reached") is not False
        if asked and host in self._silent and reached:
            self._silent.discard(host)
            self._note(host, "answers")
        if module in RENEWING and reached and not said.get("skipped"):
            self._note(host, "renews")

    def failed(self, host: str, roles: Sequence[str], action: str, said: Mapping[str, Any]) -> None:
        """Note a task that failed; it may yet be rescued."""
        # Our modules fail where Ansible's own would have the host drop out of the play.
        if said.get("reached") is False:
            self.silent(host, roles, said)
            return
        self._phase(host, roles)
        self._answer(host, action, said)
        self._note(host, "failed", message=_words(said))

    def silent(self, host: str, roles: Sequence[str], said: Mapping[str, Any]) -> None:
        """Note that a host did not answer."""
        self._phase(host, roles)
        self._silent.add(host)
        self._note(host, "silent", message=_words(said))

    def end(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Note how the hosts ended, by Ansible's counts, and that the run is over."""
        for host, count in sorted(counts.items()):
            failed = bool(count["failures"] or count["unreachable"])
            self._note(host, "ended", failed=failed, changed=count["changed"] > 0)
        runs.note(self.folder, "end")

    def _answer(self, host: str, action: str, said: Mapping[str, Any]) -> str:
        """Note what a module of ours answered; return the module's name."""
        module = action.rpartition(".")[2]
        answer = {key: said[key] for key in ANSWERS.get(module, ()) if key in said}
        if "facts" in answer:
            answer = {key: answer["facts"].get(key) for key in STATE_KEYS}
        if answer:
            self._note(host, "fact", name=module, value=answer)
        return module

    def _phase(self, host: str, roles: Sequence[str]) -> None:
        before = self._phases.get(host, "check")
        phase = next((PHASES[role] for role in reversed(roles) if role in PHASES), before)
        # Before there is a plan, a phase would be kept here and noted nowhere.
        if host in self._hosts and self._phases.get(host) != phase:
            self._phases[host] = phase
            self._note(host, "phase", phase=phase)

    def _note(self, host: str, event: str, **words: Any) -> None:
        """Note an event of a host, unless the run is not for it, as for the controller."""
        if host in self._hosts:
            runs.note(self.folder, event, host=host, **words)


def _medians(compared: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the median seconds by operation and kernel, of what `hotplug-timer compare` printed."""
    found: dict[str, dict[str, float]] = {}
    for row in compared["comparisons"]:
        found.setdefault(row["operation"], {})[row["variant"]] = row["median_s"]
    return found


def _words(said: Mapping[str, Any]) -> str:
    return " ".join(str(said.get("msg", "")).split())
