import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common import process, scratch
from hotplug_common.process import Identity
from hotplug_common.ui import Progress
from hotplug_host.errors import ExitCode, ToolError
from lpar_lab import state

GUEST = state.State(
    name="lab1",
    arch="ppc64le",
    cores=2,
    threads=8,
    memory=2048,
    accel="tcg",
    ssh_port=40022,
    release="6.12.117-stock-1a2b3c4d",
    kernel="/cache/artifact.json",
    started="2026-01-01T00:00:00+00:00",
    pid=4242,
    start_ticks=1000,
)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def fake_proc(root: Path, pid: int, ticks: int, words: list[str], condition: str = "S") -> Path:
    folder = root / str(pid)
    folder.mkdir(parents=True)
    fields = [condition, *["0"] * 18, str(ticks), "0"]
    (folder / "stat").write_text(f"{pid} (qemu) x) y) {' '.join(fields)}\n")
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    return root


OURS = ["qemu-system-ppc64", "-name", "lpar-lab-lab1"]


def test_the_process_this_tool_started_is_running(tmp_path: Path) -> None:
    assert state.is_running(GUEST, fake_proc(tmp_path, 4242, 1000, OURS))


@pytest.mark.parametrize(
    ("ticks", "words", "condition"),
    [
        (1001, OURS, "S"),
        (1000, ["qemu-system-ppc64", "-name", "lpar-lab-lab12"], "S"),
        (1000, ["sleep", "60"], "S"),
        (1000, OURS, "Z"),
    ],
    ids=["recycled pid", "another guest", "another program", "zombie"],
)
def test_any_other_process_is_not_it(tmp_path: Path, ticks: int, words: list[str], condition: str) -> None:
    assert not state.is_running(GUEST, fake_proc(tmp_path, 4242, ticks, words, condition))


def test_no_such_process(tmp_path: Path) -> None:
    assert not state.is_running(GUEST, tmp_path)


def test_stop_never_touches_a_recycled_pid(bystander: subprocess.Popen[bytes]) -> None:
    ticks = process.start_ticks(bystander.pid)
    assert ticks is not None
    process.stop(Identity(bystander.pid, ticks - 1))
    state.stop(replace(GUEST, pid=bystander.pid, start_ticks=ticks))  # right process, not a guest's QEMU
    time.sleep(0.1)
    assert bystander.poll() is None


def test_stop_ends_the_very_process_and_twice_is_fine(bystander: subprocess.Popen[bytes]) -> None:
    ticks = process.start_ticks(bystander.pid)
    assert ticks is not None
    process.stop(Identity(bystander.pid, ticks))
    assert bystander.wait(5) != 0
    process.stop(Identity(bystander.pid, ticks))


def test_stop_kills_what_ignores_sigterm() -> None:
    child = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"], stdout=subprocess.PIPE
    )
    assert child.stdout
    child.stdout.readline()
    ticks = process.start_ticks(child.pid)
    assert ticks is not None
    process.stop(Identity(child.pid, ticks), grace=0.3)
    assert child.wait(5) == -9
    child.stdout.close()


def test_state_survives_the_file(tmp_path: Path) -> None:
    state.save(tmp_path, GUEST)
    assert state.load(tmp_path) == GUEST
    assert state.load(tmp_path / "none") is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema": "other/1"}', '{"schema": "lpar-lab/guest/1", "pid": 1}']
)
def test_a_foreign_state_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / state.FILE).write_text(text)
    with pytest.raises(ToolError) as caught:
        state.load(tmp_path)
    assert caught.value.code is ExitCode.INPUT


@pytest.mark.parametrize("name", ["", "../x", "Lab", "a b", "-a", "a-", "x" * 33])
def test_names_that_are_no_host_names_are_refused(name: str) -> None:
    with pytest.raises(ToolError):
        state.check_name(name)


@pytest.fixture
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TICK_S", 0.05)


@pytest.mark.usefixtures("short_ticks")
def test_leaving_run_early_ends_the_whole_group(tmp_path: Path) -> None:
    grandchild = tmp_path / "pid"

    def interrupt() -> None:
        if grandchild.exists() and grandchild.read_text().endswith("\n"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(["sh", "-c", f"sleep 60 & echo $! > {grandchild}; wait"], tick=interrupt)
    # Its group had its signal; the process itself may take a moment to be gone.
    deadline = time.monotonic() + 10
    while process.start_ticks(int(grandchild.read_text())) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.usefixtures("short_ticks")
def test_run_feeds_input_once_however_long_it_takes() -> None:
    assert process.run(["sh", "-c", "sleep 0.2; cat"], stdin=b"hello").output == "hello"


@pytest.mark.usefixtures("short_ticks")
def test_run_timeout_and_missing_tool() -> None:
    with pytest.raises(ToolError) as caught:
        process.run(["sleep", "60"], timeout=0.2)
    assert caught.value.code is ExitCode.TIMEOUT
    with pytest.raises(ToolError) as caught:
        process.run(["no-such-tool-anywhere"])
    assert caught.value.code is ExitCode.ENVIRONMENT


def test_scratch_folder_is_removed_and_a_dead_owners_is_swept(tmp_path: Path) -> None:
    dead = tmp_path / "kernel.1.999999999.abc"
    dead.mkdir()
    foreign = tmp_path / "notes"
    foreign.mkdir()
    with pytest.raises(RuntimeError), scratch.folder(tmp_path, "kernel") as work:
        assert work.is_dir()
        assert not dead.exists()
        with scratch.folder(tmp_path, "rootfs"):
            assert work.is_dir(), "a living owner's folder stays"
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [foreign]


def test_publish_is_all_or_nothing_and_first_wins(tmp_path: Path) -> None:
    for number in ("one", "two"):
        fresh = tmp_path / number
        fresh.mkdir()
        (fresh / "file").write_text(number)
        scratch.publish(fresh, tmp_path / "cache/key")
    assert (tmp_path / "cache/key/file").read_text() == "one"


def test_a_small_disk_is_noticed_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="needs 1e\\+09 GB") as caught:
        scratch.need_space(tmp_path / "a/b", 1e9, "testing")
    assert caught.value.code is ExitCode.ENVIRONMENT


def test_progress_shows_elapsed_time(capsys: pytest.CaptureFixture[str]) -> None:
    Progress()("hello")
    assert capsys.readouterr().err.endswith(" s] hello\n")
