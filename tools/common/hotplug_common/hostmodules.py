"""What the collection's modules ask a host's program for, and how they word its faults."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hotplug_host.lease import RUN, SECONDS

Options = Mapping[str, Any]
EMPTY: Mapping[str, Any] = {}

#: Options that each module has beside its own, as in plugins/doc_fragments/host_program.py.
SHARED: Mapping[str, Mapping[str, Any]] = {
    "what": {"type": "str"},
    "next_step": {"type": "str"},
    "answer_timeout": {"type": "int", "default": 600},
}


@dataclass(frozen=True)
class Task:
    """What a module knows of the task that it is, beside its options."""

    check: bool = False
    """Whether Ansible runs in check mode."""
    sysroot: str = "/"
    """The host's root; another one in tests."""
    turns: int = 1
    """How many hosts of a batch share one of Ansible's forks."""
    lock: Mapping[str, str] = field(default_factory=dict)
    """What identifies the run in a lock that it takes: `token`, `owner`, `started`."""
    run: str = ""
    """The run that has the host, by its token and its lock; empty where none of this play has it."""


def plain(options: Options, task: Task) -> list[str]:
    """Return an option of the program for each option that is set; `_` is `-` there."""
    given: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            given += [flag] if value else []
        elif isinstance(value, list):
            given += [f"{flag}={_text(item)}" for item in value]
        elif value not in (None, ""):
            given.append(f"{flag}={_text(value)}")
    return [*given, f"--sysroot={task.sysroot}"]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _fallback(options: Options, task: Task) -> list[str]:
    """With fewer forks than hosts, a host is asked after others, each of which may be dead and waited for."""
    seconds = options.get("seconds")
    return plain({**options, "seconds": seconds and seconds * task.turns}, task)


def _lock(options: Options, task: Task) -> list[str]:
    where = f"--lock={lock_file(options)}"
    if options["action"] == "acquire":
        record = {**(options["record"] or {}), SECONDS: lease(options, task), **task.lock}
        return [where, f"--acquire={json.dumps(record)}"]
    return [where, f"--release={options['token']}"]


def lease(options: Options, task: Task) -> int:
    """With fewer forks than hosts, a host is asked after others, each of which may take that long."""
    seconds: int = options["lease"] * task.turns
    return seconds


def lock_file(options: Options) -> str:
    """Return the lock's file on the host."""
    return f"{options['staging']}/lock.json"


def environment(task: Task) -> str:
    """Return what goes before the program: with it, each step on the host renews the lease of its run."""
    return f"{RUN}={shlex.quote(task.run)} " if task.run else ""


def run_after(name: str, options: Options, task: Task) -> str | None:
    """Return which run has the host after a module was done; None where it changes nothing about that."""
    if task.check:
        return None
    if name == "run_lock" and options["action"] == "acquire":
        return f"{task.lock['token']}:{lock_file(options)}"
    gives = MODULES[name].gives_back
    return "" if gives and options["action"] == gives else None


def _switch(options: Options, task: Task) -> list[str]:
    switch = [
        options["level"],
        "--expedite",
        "--json",
        f"--timeout={options['timeout']}",
        f"--sysroot={task.sysroot}",
    ]
    switch += ["--tune-fqs"] if options.get("tune_fqs") else []
    if task.check:
        return ["smt", *switch, "--dry-run"]
    unit = {name: options.get(name) for name in ("action", "staging", "timeout", "record", "token")}
    return ["smt-unit", *plain(unit, task), "--", *(switch if options["action"] == "start" else [])]


@dataclass(frozen=True)
class HostModule:
    """A module: the program's words, and what an operator reads where it fails.

    `what` and `next_step` may name options in braces.
    """

    words: tuple[str, ...]
    what: str
    next_step: str
    next_steps: Mapping[str, str] = field(default_factory=dict)
    """By the option `action`, where another step helps."""
    gives_back: str = ""
    """The `action` after which no run has the host."""
    changes: bool = True
    """Whether it changes the host; in check mode, the program reports what it would change."""
    compose: Callable[[Options, Task], list[str]] = plain

    def arguments(self, options: Options, task: Task) -> list[str]:
        """Return the program's arguments."""
        own = {name: value for name, value in options.items() if name not in SHARED}
        dry = ["--dry-run"] if task.check and self.changes and self.words else []
        return [*self.words, *dry, *self.compose(own, task)]

    def fault(self, host: str, options: Options, fault: str, answer: Mapping[str, Any] = EMPTY) -> str:
        """Return the one line of a failure: which host, what failed, why, and what to do.

        TOKEN in what to do is that of the run which has the host, as the host answered.
        """
        what = options.get("what") or self.what.format(**options)
        usual = self.next_steps.get(options.get("action", ""), self.next_step).format(**options)
        next_step = options.get("next_step") or usual
        return f"{host}: {what}: {fault}; {next_step.replace('TOKEN', str(answer.get('token', 'TOKEN')))}"


LOOK_WRITERS = "look for who else writes there"
MODULES: Mapping[str, HostModule] = {
    "boot_entry": HostModule(
        ("boot-entry",),
        "the boot entry of {release} refuses: {action}",
        "see to it, or deploy by kexec",
    ),
    "boot_fallback": HostModule(
        ("boot-fallback",),
        "the host's own way back cannot be {action}ed",
        "look at hotplug-acceleration-fallback.timer there",
        compose=_fallback,
    ),
    "clocksource": HostModule(
        ("clocksource",),
        "the clocksource could not be switched",
        f"{LOOK_WRITERS}, and for 'clocksource' in the kernel log of the host",
    ),
    "host_health": HostModule(
        ("health",), "the host's health cannot be read", "do without by ab_health=false", changes=False
    ),
    "host_state": HostModule(
        ("preflight", "--json"),
        "the state of the host cannot be read",
        "check that the host is up, that no other run is rebooting it, and that python3 runs on it",
        changes=False,
    ),
    "kexec_image": HostModule(
        ("kexec-load",), "{image} was never loaded", "look at the kernel log of the host"
    ),
    "rcu_expedited": HostModule(
        ("rcu-expedited",),
        "rcu_expedited could not be set to {value}",
        f"{LOOK_WRITERS}, and at rcu_normal beside it",
    ),
    "run_lock": HostModule(
        ("run-lock",),
        "the lock is not {action}d",
        "look for the run on the controllers of this host",
        {"release": "another run or a rollback met this one, so distrust its results"},
        gives_back="release",
        compose=_lock,
    ),
    "smt_persist": HostModule(
        ("smt-persist",),
        "SMT={level} does not hold after a reboot",
        "see to it, or leave smt_switch_persist out",
    ),
    "smt_state": HostModule(
        ("smt-state",),
        "SMT could not be set to {level}",
        "look for refused CPUs in the kernel log of the host",
    ),
    "smt_switch": HostModule(
        (),
        "SMT could not be switched to {level}",
        "then run the playbook again",
        gives_back="finish",
        compose=_switch,
    ),
}


@dataclass(frozen=True)
class Answer:
    """What came of a module: the JSON object of the program, or its fault."""

    values: Mapping[str, Any]
    fault: str = ""


def answer_of(code: int, output: str, errors: str) -> Answer:
    """Read what the program printed: a JSON object on a line, and else what it or the shell complained of."""
    lines = [line.strip() for line in [*output.splitlines(), *errors.splitlines()] if line.strip()]
    values = next((found for found in map(_object, lines) if found is not None), None)
    if values is None or (code != 0 and "error" not in values):
        return Answer(values or {}, lines[-1] if lines and values is None else f"exit code {code}")
    return Answer(values, str(values["error"]) if "error" in values else "")


def _object(line: str) -> dict[str, Any] | None:
    if not (line.startswith("{") and line.endswith("}")):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def turns(hosts: int, forks: int) -> int:
    """Return how many hosts of a batch share a fork."""
    return max(1, math.ceil(hosts / max(1, forks)))


def lock_owner(variables: Mapping[str, Any], user: str) -> str:
    """Return who takes a lock. In AWX, user and machine are those of a container that is thrown away."""
    job = variables.get("awx_job_id")
    owner = f"{variables.get('awx_user_name', 'AWX')} in AWX job {job}" if job is not None else user
    change = variables.get("fleet_change")
    return f"{owner} for {change}" if change else owner
