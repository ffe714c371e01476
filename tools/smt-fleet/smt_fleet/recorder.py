"""Notes what a playbook does to each host; the callback plugin of Ansible calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smt_fleet import runs

#: Facts that tell what became of a host.
FACTS = (
    "boot_proof_seen",
    "fleet_begun",
    "host_state_now",
    "on_host_answer",
    "preflight_record",
    "regress_failure",
    "regress_judged",
    "run_lock_holds",
    "smt_switch_done",
    "smt_switch_holds",
)
#: What of host_state_now is kept: the rest is long.
STATE_KEYS = ("release", "cpus")
#: The phase that a role's tasks are; what is not here is part of its caller's phase.
PHASES = {
    "ab": "measure",
    "boot_entry": "change",
    "boot_proof": "verify",
    "deploy": "change",
    "fleet": "wait",
    "kexec_boot": "change",
    "preflight": "check",
    "restore": "restore",
    "smt_switch": "change",
    "smt_timing": "measure",
}
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

    def result(
        self, host: str, roles: Sequence[str], action: str, delegated: bool, said: Mapping[str, Any]
    ) -> None:
        """Note a task that was done: ROLES are those it is part of, the outermost first."""
        self._phase(host, roles)
        for name, value in (said.get("ansible_facts") or {}).items():
            if name in FACTS:
                kept = {key: value.get(key) for key in STATE_KEYS} if name == "host_state_now" else value
                self._note(host, "fact", name=name, value=kept)
        asked = not delegated and action.rpartition(".")[2] not in OF_CONTROLLER
        if asked and host in self._silent and not said.get("unreachable"):
            self._silent.discard(host)
            self._note(host, "answers")

    def failed(self, host: str, roles: Sequence[str], said: Mapping[str, Any]) -> None:
        """Note a task that failed; it may yet be rescued."""
        self._phase(host, roles)
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

    def _phase(self, host: str, roles: Sequence[str]) -> None:
        before = self._phases.get(host, "check")
        phase = next((PHASES[role] for role in reversed(roles) if role in PHASES), before)
        if self._phases.get(host) != phase:
            self._phases[host] = phase
            self._note(host, "phase", phase=phase)

    def _note(self, host: str, event: str, **words: Any) -> None:
        """Note an event of a host, unless the run is not for it, as for the controller."""
        if host in self._hosts:
            runs.note(self.folder, event, host=host, **words)


def _words(said: Mapping[str, Any]) -> str:
    return " ".join(str(said.get("msg", "")).split())
