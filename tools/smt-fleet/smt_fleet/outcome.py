"""What became of each host of a run: events in, rows and an exit code out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Exit codes of a run, by its worst host; docs/reference/smt-fleet.md.
OK, UNFIT, RESTORED, CHANGED, PENDING = 0, 3, 5, 6, 7


class Verdict(StrEnum):
    """What became of a host."""

    OK = "ok"
    UNCHANGED = "ok-unchanged"
    UNFIT = "unfit"
    RESTORED = "failed-restored"
    LEFT_CHANGED = "LEFT-CHANGED"
    UNREACHABLE = "unreachable"
    NOT_REACHED = "not-reached"
    RUNNING = "running"


#: Verdicts with which a host needs nothing more of this run.
DONE = (Verdict.OK, Verdict.UNCHANGED)


@dataclass
class Host:
    """One planned host, as far as the events have told of it."""

    name: str
    phase: str = ""
    held: bool | None = None
    """Whether the run has the host's lock: None before it took it, False after it gave it back."""
    renewed: str = ""
    """When the run was last at work on the host, by its own time."""
    lease: float | None = None
    """Seconds for which that counts."""
    silent: bool = False
    """Whether the host has not answered since it was last asked."""
    failed: bool = False
    changed: bool = False
    ended: bool = False
    begun: bool = True
    """False where the run has the host in its plan only, or has found that there is no time for it."""
    turn: bool = False
    """Whether it is, or was, in a batch that has begun."""
    measured: str | None = None
    """Why a measurement failed that goes on with the other hosts; empty where it did not."""
    judged: bool = False
    """Whether what fails now is no failure of the host."""
    message: str = ""
    release_before: str = ""
    online_before: str = ""
    level_before: str = ""
    release_after: str = ""
    online_after: str = ""
    level_after: str = ""
    health: str = ""
    """How the host does after a boot, compared with before; empty where no boot was compared."""
    switched: bool | None = None
    """Whether the SMT level was changed, of a run that only switches."""
    seconds: float | None = None
    """What the switch took."""
    medians: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Median seconds by operation and kernel, of a run that compares kernels."""

    @property
    def touched(self) -> bool:
        """Whether the run ever had the host's lock: before that it changes nothing."""
        return self.held is not None

    def take(self, event: Mapping[str, Any]) -> None:
        """Learn from an event."""
        kind = event["event"]
        if kind == "phase":
            self.phase = event["phase"]
        elif kind == "fact":
            if event["name"] == "run_lock":
                self.renewed, self.lease = event.get("at", ""), event["value"].get("lease")
            self._learn(event["name"], event["value"])
        elif kind == "renews":
            self.renewed = event["at"]
        elif kind == "answers":
            self.silent = False
        elif kind == "silent" and not self.judged:
            self.silent, self.message = True, event["message"]
        elif kind == "failed" and not self.judged:
            self.message = event["message"]
        elif kind == "ended":
            broke = event["failed"] and not self.judged
            self.end(failed=bool(self.measured) or broke, changed=event["changed"])

    def end(self, *, failed: bool, changed: bool) -> None:
        """Note how the host ended, as far as it is known yet."""
        self.ended, self.failed = True, failed
        # Taking the lock counts as a change for Ansible.
        self.changed = changed if self.switched is None else self.switched

    def pass_on(self) -> None:
        """Note that the next batch begins: a host that was not done by then has failed."""
        if self.turn and self.touched and not self.ended:
            self.end(failed=True, changed=True)

    def _learn(self, name: str, value: Any) -> None:
        if name in ("run_lock", "smt_switch_holds"):
            self.held = bool(value["held"] if name == "run_lock" else value)
        elif name == "fleet_begun":
            self.begun = self.turn = bool(value)
        elif name == "fleet_late":
            self.message = value
        elif name == "fleet_done":
            self.end(failed=False, changed=self.touched)
        elif name == "regress_failure":
            self.measured, self.message = value, value or self.message
        elif name == "regress_judged":
            self.judged = True
        elif name == "preflight_record":
            self._state(value["release"], value["online"], value.get("smt_level"))
        elif name in ("boot_proof_seen", "host_state"):
            online = value.get("cpus", {}).get("online", "")
            self._state(value.get("release", ""), online, (value.get("smt") or {}).get("level"))
        elif name == "host_health":
            self.health = ", ".join(value["worse"]) or "as before"
        elif name == "ab_compared":
            self.medians = value
        elif name == "smt_state":
            self._now(online=value.get("online"), level=value.get("level"))
        elif name == "smt_switch" and "online" in value:
            self._now(online=value["online"], level=value.get("level"))
            self.switched = bool(value["changed"])
            self.seconds = value.get("seconds") if self.switched else None

    def _state(self, release: str, online: str, level: str | None) -> None:
        """Learn what the host is; the first time also what it was."""
        self._now(release, online, level)
        self.release_before = self.release_before or release
        self.online_before = self.online_before or online
        self.level_before = self.level_before or level or ""

    def _now(self, release: str = "", online: str | None = None, level: str | None = None) -> None:
        self.release_after = release or self.release_after
        self.online_after = online or self.online_after
        self.level_after = level or self.level_after

    def verdict(self, undoes: bool, over: bool) -> Verdict:
        """Return the verdict; UNDOES is of a rollback, which takes no lock, OVER of a run that has ended."""
        if not self.phase or not (self.begun or self.failed):
            return Verdict.NOT_REACHED
        if not self.ended:
            ending = Verdict.LEFT_CHANGED if self.held else Verdict.NOT_REACHED
            return ending if over else Verdict.RUNNING
        if not self.failed:
            # Without the lock a run changes no host: what Ansible counted is on the controller.
            return Verdict.OK if self.changed and (self.touched or undoes) else Verdict.UNCHANGED
        return self._failure(undoes)

    def _failure(self, undoes: bool) -> Verdict:
        if self.held:
            return Verdict.LEFT_CHANGED
        if self.silent:
            return Verdict.UNREACHABLE
        if self.held is None and not undoes:
            return Verdict.UNFIT
        before, after = (self.release_before, self.online_before), (self.release_after, self.online_after)
        return Verdict.LEFT_CHANGED if undoes or before != after else Verdict.RESTORED

    def again(self) -> None:
        """Forget how it ended: a resumed run comes to it once more. What the host was before all stays."""
        self.phase, self.message, self.health, self.failed, self.ended = "", "", "", False, False
        self.begun, self.turn, self.measured, self.judged = True, False, None, False


@dataclass(frozen=True)
class Outcome:
    """A run's hosts, in their order, with their verdicts."""

    hosts: Sequence[Host]
    undoes: bool
    over: bool

    def verdict(self, host: Host) -> Verdict:
        """Return what became of a host."""
        return host.verdict(self.undoes, self.over)

    def named(self, *verdicts: Verdict) -> list[str]:
        """Return the hosts with one of the verdicts."""
        return [host.name for host in self.hosts if self.verdict(host) in verdicts]

    @property
    def pending(self) -> list[str]:
        """Return the hosts that the run owes something."""
        return [host.name for host in self.hosts if self.verdict(host) not in DONE]

    @property
    def code(self) -> int:
        """Return the exit code: that of the worst host."""
        if self.named(Verdict.LEFT_CHANGED) or (self.undoes and self.named(Verdict.UNREACHABLE)):
            return CHANGED
        if self.named(Verdict.RESTORED):
            return RESTORED
        if self.named(Verdict.NOT_REACHED, Verdict.RUNNING):
            return PENDING
        return UNFIT if self.pending else OK


def outcome(events: Iterable[Mapping[str, Any]], *, undoes: bool, over: bool | None = None) -> Outcome:
    """Return what the events of a run tell; OVER where it is known otherwise than by their last one."""
    hosts: dict[str, Host] = {}
    ended = False
    for event in events:
        if event["event"] == "planned":
            for name in event["hosts"]:
                hosts.setdefault(name, Host(name))
        elif event["event"] == "batch":
            for host in hosts.values():
                host.pass_on()
        elif event["event"] == "end":
            ended = True
        elif event["event"] == "resumed":
            ended = False
            for name in hosts.keys() & event["hosts"]:
                hosts[name].again()
        elif event.get("host") in hosts:
            hosts[event["host"]].take(event)
    return Outcome(list(hosts.values()), undoes, ended if over is None else over)
