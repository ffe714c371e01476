"""Host cores while a guest jumps to another kernel: threads of this process stand for its CPUs."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.guest import qmp
from lpar_lab import jumps

JUMP = "[   17.8] kexec: Starting switchover sequence.\n"
STARTED = "[    0.000000] Linux version 6.12.118\n"
ARRIVED = "Welcome to Debian GNU/Linux forky/sid!\n"
HOST = os.sched_getaffinity(0)
SHARED = {max(HOST)}

pytestmark = pytest.mark.skipif(len(HOST) < 2, reason="one core cannot be kept free")


@pytest.fixture
def cpus() -> Iterator[list[int]]:
    """Return the threads of four CPUs and more."""
    over = threading.Event()
    workers = [threading.Thread(target=over.wait) for _ in range(max(4, len(HOST) + 1))]
    for worker in workers:
        worker.start()
    yield [worker.native_id for worker in workers if worker.native_id]
    over.set()
    for worker in workers:
        worker.join()


@pytest.fixture
def working() -> set[int]:
    """Return the indexes of the CPUs that do not wait, which a test may change."""
    return {0}


@pytest.fixture
def guest(tmp_path: Path, cpus: list[int], working: set[int], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a guest whose emulator tells of these threads, as QEMU 10 words it."""

    def execute(folder: Path, command: str, words: Any = None, timeout: float = 3.0) -> Any:
        assert folder == tmp_path
        if command == "query-cpus-fast":
            return [{"cpu-index": index, "thread-id": thread} for index, thread in enumerate(cpus)]
        assert (command, words) == ("human-monitor-command", {"command-line": "info registers -a"})
        at = ["c00000000008d380" if index in working else "00000000000000ac" for index in range(len(cpus))]
        return "".join(
            f"\r\nCPU#{index}\r\nNIP {address}   LR c00000000000c3cc CTR 0000000000000000"
            for index, address in enumerate(at)
        )

    monkeypatch.setattr(qmp, "execute", execute)
    (tmp_path / "console.log").write_text(JUMP)
    return tmp_path


def prints(guest: Path, text: str) -> None:
    with (guest / "console.log").open("a") as log:
        log.write(text)


def cores(cpus: list[int]) -> list[set[int]]:
    return [os.sched_getaffinity(thread) for thread in cpus]


def niceness(cpus: list[int]) -> list[int]:
    return [os.getpriority(os.PRIO_PROCESS, thread) for thread in cpus]


@pytest.fixture
def favoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow what only root may do: the threads have no niceness of their own here."""
    given: dict[int, int] = {}
    monkeypatch.setattr(os, "getpriority", lambda which, thread: given.get(thread, 0))
    monkeypatch.setattr(os, "setpriority", lambda which, thread, value: given.update({thread: value}))


@pytest.mark.usefixtures("favoured")
def test_the_cpu_that_boots_comes_first_on_a_core_that_all_share(guest: Path, cpus: list[int]) -> None:
    with jumps.followed(guest) as jump:
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus), "a jump of before is none"
        prints(guest, JUMP[:20])
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus)
        prints(guest, JUMP[20:])
        jump.look()
        assert cores(cpus) == [SHARED] * len(cpus)
        assert niceness(cpus) == [-20] + [0] * (len(cpus) - 1)
        prints(guest, STARTED)
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus)
        assert niceness(cpus)[0] == -20
        prints(guest, ARRIVED)
        jump.look()
        assert niceness(cpus) == [0] * len(cpus)
        prints(guest, JUMP + STARTED + ARRIVED + JUMP)
        jump.look()
        assert cores(cpus) == [SHARED] * len(cpus)


@pytest.mark.usefixtures("favoured")
def test_the_cpu_that_works_is_found_once_the_others_wait(
    guest: Path, cpus: list[int], working: set[int]
) -> None:
    working.update(range(len(cpus)))
    with jumps.followed(guest) as jump:
        prints(guest, JUMP)
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus), "none waits yet"
        working.clear()
        working.add(2)
        jump.look()
        assert niceness(cpus) == [-20 if index == 2 else 0 for index in range(len(cpus))]
        working.add(1)
        jump.look()
        assert niceness(cpus)[1] == 0, "the new kernel starts them one by one"


def test_without_a_right_to_prefer_it_the_others_leave_it_a_core(
    guest: Path, cpus: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(which: int, thread: int, value: int) -> None:
        if value < 0:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "setpriority", refuse)
    with jumps.followed(guest) as jump:
        prints(guest, JUMP)
        jump.look()
        assert cores(cpus) == [HOST, *[HOST - {min(HOST)}] * (len(cpus) - 1)]
        prints(guest, STARTED)
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus)


@pytest.mark.usefixtures("favoured")
def test_a_jump_that_never_arrives_ends_with_its_run(guest: Path, cpus: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt), jumps.followed(guest) as jump:
        prints(guest, JUMP)
        jump.look()
        assert cores(cpus)[1] != HOST
        prints(guest, STARTED)
        jump.look()
        raise KeyboardInterrupt
    assert (cores(cpus), niceness(cpus)) == ([HOST] * len(cpus), [0] * len(cpus))


def test_a_guest_of_no_more_cpus_than_cores_is_let_alone(guest: Path, cpus: list[int]) -> None:
    del cpus[len(HOST) :]
    with jumps.followed(guest) as jump:
        prints(guest, JUMP)
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus)


def test_an_emulator_that_does_not_answer_is_slower_and_no_fault(
    guest: Path, cpus: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(folder: Path, command: str, words: Any = None, timeout: float = 3.0) -> Any:
        raise qmp.QmpError("gone")

    monkeypatch.setattr(qmp, "execute", execute)
    with jumps.followed(guest) as jump:
        prints(guest, JUMP)
        jump.look()
        assert cores(cpus) == [HOST] * len(cpus)
