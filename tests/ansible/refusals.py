"""Refusals of a playbook, many in one run of it: each is a host of its own, with variables and state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes import fake_lpar
from tests.fakes.fake_lpar import FakeLpar, PlayResult, files_below


@dataclass(frozen=True)
class Case:
    """One refusal: a host's name, and what it has to be told.

    `variables` are the host's own; `prepare` makes the host one to refuse, and may return more variables.
    """

    name: str
    messages: Sequence[str]
    variables: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[FakeLpar], dict[str, Any] | None] | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Refusals:
    """What came of the run: what each host was told, and the hosts."""

    result: PlayResult
    hosts: dict[str, FakeLpar]
    before: dict[str, dict[Path, bytes]]

    def check(self, case: Case) -> FakeLpar:
        """Hold a host to its messages, and to having been left as it was; returns it."""
        told = self.result.failures.get(case.name, "")
        for message in case.messages:
            wanted = message.format(host=case.name, work=self.hosts[case.name].work)
            assert wanted in told
        assert self.result.code == 2
        host = self.hosts[case.name]
        assert files_below(host.root, host.results) == self.before[case.name]
        return host


def refuse(
    work: Path,
    playbook: str,
    cases: Sequence[Case],
    setup: Callable[[FakeLpar], None] = lambda _host: None,
    **variables: Any,
) -> Refusals:
    """Run a playbook on all these hosts at once; VARIABLES are those that hold for the whole of it.

    SETUP prepares each host before its case does. No command of a host changes anything: it would be
    that of the first one.
    """
    controller = fake_lpar.build(work)
    controller.hosts, controller.variables = {}, {}
    hosts = {}
    for case in cases:
        host = controller.beside(case.name)
        setup(host)
        more = case.prepare(host) if case.prepare else None
        controller.hosts[case.name] |= host.variables | case.variables | (more or {})
        hosts[case.name] = host
    before = {name: files_below(host.root, host.results) for name, host in hosts.items()}
    result = controller.play(playbook, **variables)
    assert not [command for command in controller.commands() if not asks(command)], controller.commands()
    return Refusals(result, hosts, before)


def asks(command: Sequence[str]) -> bool:
    """Whether a command only asks."""
    asking = ("is-system-running", "list-unit-files", "list-units", "show", "is-enabled")
    return command[0] == "systemctl" and command[1] in asking
