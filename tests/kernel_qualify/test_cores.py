"""`kernel-qualify cores`: a guest whose emulator waits for itself is started again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotplug_common.guest.deadlock import DeadlockError
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify import lab
from kernel_qualify.commands import cores
from kernel_qualify.judge.cores import load
from kernel_qualify.proving import TRIES, Order
from tests.kernel_qualify.judge.test_cores import record

ORDER = Order("ppc64le", "6.12", 2, 8)


class Guest:
    """A guest whose removal of a core, as lpar-lab tells it, ends with `error`."""

    def __init__(self, order: Order, error: ToolError | None) -> None:
        self.order = order
        self.name = "proving"
        self.cpus = 16
        self.rendezvous = 0
        self.closed = False
        self.error = error
        self.lab = self

    def boot(self, **_: object) -> None:
        pass

    def must(self, command: str, action: str, name: str) -> str:
        assert (command, name) == ("cores", self.name)
        if action == "remove" and self.error:
            raise self.error
        self.cpus += 8 if action == "add" else -8
        self.rendezvous = int(action == "remove")
        return ""

    def script(self, _: str) -> list[dict[str, Any]]:
        facts = record(self.cpus)
        facts["calls"]["stop_machine_cpuslocked"] = self.rendezvous
        return [facts | {"release": f"6.12-{self.order.variant}"}]

    def log_problems(self) -> list[str]:
        return []

    def close(self) -> None:
        self.closed = True


def told_of_a_deadlock() -> ToolError:
    """What the proof gets of lpar-lab's message."""
    printed = str(DeadlockError("guest 'proving'"))
    return lab.failed("cores", ExitCode.GUEST, f"[    1.0 s] removing\nlpar-lab: error: {printed}\n")


def find(
    tmp_path: Path, errors: list[ToolError | None], said: list[str] | None = None
) -> tuple[list[str], list[Guest]]:
    guests: list[Guest] = []

    def guest(order: Order) -> Guest:
        guests.append(Guest(order, errors.pop(0) if errors else None))
        return guests[-1]

    ground = SimpleNamespace(guest=guest, results=tmp_path, say=([] if said is None else said).append)
    return cores._find(ORDER, 2, ground), guests  # type: ignore[arg-type]


def test_each_kernel_has_a_guest(tmp_path: Path) -> None:
    problems, guests = find(tmp_path, [])
    assert problems == []
    assert [guest.order.variant for guest in guests] == ["stock", "patched"]
    assert all(guest.closed for guest in guests)
    run = load(tmp_path / "cores.json")
    assert run.releases == {"stock": "6.12-stock", "patched": "6.12-patched"}
    assert [(one.kernel, one.action) for one in run.changes[:3]] == [
        ("stock", "add"),
        ("stock", "remove"),
        ("stock", "add"),
    ]
    assert len(run.changes) == 8


def test_a_guest_whose_emulator_waits_for_itself_is_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    problems, guests = find(tmp_path, [None, told_of_a_deadlock()], said)
    assert problems == []
    assert [guest.order.variant for guest in guests] == ["stock", "patched", "patched"]
    assert all(guest.closed for guest in guests)
    assert any("lpar-lab cores: guest 'proving': QEMU waits for itself" in line for line in said)
    assert len(load(tmp_path / "cores.json").changes) == 8


@pytest.mark.parametrize(
    ("error", "guests"),
    [(told_of_a_deadlock(), TRIES), (lab.failed("cores", ExitCode.TIMEOUT, "it did not remove the core"), 1)],
    ids=["the emulator's each time", "the kernel's"],
)
def test_what_does_not_go_away_ends_the_proof(error: ToolError, guests: int, tmp_path: Path) -> None:
    errors: list[ToolError | None] = [error] * (TRIES + 1)
    with pytest.raises(ToolError) as caught:
        find(tmp_path, errors)
    assert caught.value is error
    assert len(errors) == TRIES + 1 - guests
