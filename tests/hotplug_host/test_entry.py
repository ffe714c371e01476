"""How every program ends: signals, and an output that closes, is full, or never was there."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import clock_check.cli
import clock_harness.cli
import hotplug_timer.cli
import lpar_lab.cli
from hotplug_host import entry, termination
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import run_command
from tests import ROOT
from tests.fakes.inchild import in_child

BIN = Path(sys.executable).parent
DEMO = tuple(str(path) for path in sorted((ROOT / "docs/examples/demo").glob("*.jsonl"))[:2])
MAINS: dict[str, Callable[[Sequence[str]], int]] = {
    "hotplug-timer": hotplug_timer.cli.main,
    "clock-check": clock_check.cli.main,
    "lpar-lab": lpar_lab.cli.main,
    "clock-harness": clock_harness.cli.main,
}
#: Commands that print their result, of every program, and of one both by rich and without it.
COMMANDS = {
    "compare": ("hotplug-timer", "compare", *DEMO),
    "compare-json": ("hotplug-timer", "compare", "--format=json", *DEMO),
    "predict": ("hotplug-timer", "predict", str(ROOT / "docs/data/prediction/6.12-ppc64le-16/costs.jsonl")),
    "clock-check": ("clock-check", "audit"),
    "lpar-lab": ("lpar-lab", "status"),
    "clock-harness": ("clock-harness", "--help"),
}
LONG = "a line of text\n" * 10_000


@contextlib.contextmanager
def broken() -> Iterator[None]:
    """Standard output is a pipe whose reader is gone."""
    with contextlib.redirect_stdout(os.fdopen(pipe_without_reader(), "w")) as stream:
        yield
    stream.close()  # raises where guarded left something unwritten


@contextlib.contextmanager
def full() -> Iterator[None]:
    """Standard output is a file on a full disk."""
    with contextlib.redirect_stdout(open("/dev/full", "w")) as stream:  # noqa: PTH123 - below
        yield
    stream.close()


def pipe_without_reader() -> int:
    read_end, write_end = os.pipe()
    os.close(read_end)
    # A process that is being started meanwhile has the other end, too, for a moment.
    poll = select.poll()
    poll.register(write_end, 0)
    assert poll.poll(10_000)
    return write_end


def prints(text: str) -> Callable[[], None]:
    def work() -> None:
        sys.stdout.write(text)

    return work


@pytest.mark.parametrize("text", ["short\n", LONG], ids=["short", "long"])
def test_a_closed_pipe_ends_quietly(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with broken():
        assert entry.guarded("a-program", prints(text)) == ExitCode.OK
    assert capsys.readouterr().err == ""


def test_help_into_a_closed_pipe_ends_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    with broken():
        assert run_command(entry.Parser(prog="a-program"), ["--help"]) == ExitCode.OK
    assert capsys.readouterr().err == ""


def test_a_library_that_ends_the_program_at_a_closed_pipe_ends_it_quietly() -> None:
    """As rich does: it puts /dev/null in the place of the pipe and exits with 1."""

    def work() -> None:
        try:
            sys.stdout.write(LONG)
        except BrokenPipeError:
            sys.exit(1)

    with broken():
        assert entry.guarded("a-program", work) == ExitCode.OK


def test_a_broken_pipe_to_another_program_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        pipe = pipe_without_reader()
        try:
            os.write(pipe, b"a question")
        finally:
            os.close(pipe)

    assert entry.guarded("a-program", work) == ExitCode.ENVIRONMENT
    assert capsys.readouterr().err.startswith("a-program: error: Broken pipe; ")


@pytest.mark.parametrize("text", ["short\n", LONG], ids=["short", "long"])
def test_a_full_disk_has_an_exit_code_of_its_own(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with full():
        assert entry.guarded("a-program", prints(text)) == ExitCode.DISK_FULL
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("a-program: error: ")
    assert "No space left on device; free some space" in line


def test_what_the_last_write_meets_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with full():
        entry.guarded("a-program", prints("short\n"))
    assert "error: standard output: No space left" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_of_a_file_names_it(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise OSError(number, os.strerror(number), "results/a.jsonl")

    assert entry.guarded("a-program", work) == ExitCode.DISK_FULL
    assert capsys.readouterr().err.startswith(f"a-program: error: results/a.jsonl: {os.strerror(number)}; ")


def test_a_refused_file_is_the_environments_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.guarded("a-program", lambda: os.mkdir("/proc/no")) == ExitCode.ENVIRONMENT  # noqa: PTH102
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "a-program: error: /proc/no: No such file or directory; check the path, its permissions and the file"
        " system"
    )


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (ExitCode.REGRESSION, 8)])
def test_the_works_exit_code_is_the_programs(returned: int | None, code: int) -> None:
    assert entry.guarded("a-program", lambda: returned) == code


@pytest.mark.parametrize(("status", "code"), [(None, 0), (0, 0), (2, 2)])
def test_a_parser_that_ends_the_program_does(status: int | None, code: int) -> None:
    assert entry.guarded("a-program", lambda: sys.exit(status)) == code


def test_a_message_to_exit_with_is_not_lost() -> None:
    with pytest.raises(SystemExit, match="out of luck"):
        entry.guarded("a-program", lambda: sys.exit("out of luck"))


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        entry.guarded("a-program", lambda: 1 // 0)


def test_a_foreseeable_fault_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise ToolError("two\nlines \x1b[1m", "a hint", ExitCode.INPUT)

    assert entry.guarded("a-program", work) == ExitCode.INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert line.startswith("a-program: error: two lines ")
    assert line.endswith("; a hint")


def test_a_lost_terminal_does_not_hide_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_text: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def work() -> None:
        raise ToolError("wrong", "", ExitCode.INPUT)

    monkeypatch.setattr(sys.stderr, "write", refused)
    assert entry.guarded("a-program", work) == ExitCode.INPUT


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED, "interrupted"),
        (signal.SIGTERM, ExitCode.TERMINATED, "terminated"),
        (signal.SIGHUP, ExitCode.TERMINATED, "terminated"),
    ],
)
def test_a_signal_unwinds_the_work_and_is_the_exit_code(
    number: signal.Signals, code: ExitCode, word: str, tmp_path: Path
) -> None:
    said, undone = tmp_path / "said", tmp_path / "undone"

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(30)
        finally:
            undone.touch()

    def program() -> int:
        with said.open("w") as sys.stderr:
            return entry.guarded("a-program", work)

    assert in_child(program) == code
    assert undone.exists()
    assert said.read_text() == f"a-program: error: {word}; it ended what it had started\n"


def test_handlers_are_as_before_afterwards() -> None:
    def program() -> bool:
        before = list(map(signal.getsignal, termination.ENDINGS))
        during: list[object] = []
        entry.guarded("a-program", lambda: during.extend(map(signal.getsignal, termination.ENDINGS)))
        return list(map(signal.getsignal, termination.ENDINGS)) == before and during != before

    assert in_child(program)


def test_an_ignored_hangup_stays_ignored() -> None:
    """As under nohup."""

    def program() -> int:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return entry.guarded("a-program", functools.partial(os.kill, os.getpid(), signal.SIGHUP))

    assert in_child(program) == ExitCode.OK


def test_a_file_that_is_opened_never_becomes_a_closed_stream(tmp_path: Path) -> None:
    """Else what a program starts would print into a result file, or a pipe to it would be its output."""
    kept = tmp_path / "kept"

    def work() -> None:
        with kept.open("w") as file:
            assert file.fileno() > 2
            subprocess.run(["echo", "not into the file"], check=False)
            assert subprocess.run(["cat"], check=True, capture_output=True).stdout == b""

    def program() -> int:
        for number in range(3):
            os.close(number)
        sys.stdin = sys.stdout = sys.stderr = None
        return entry.guarded("a-program", work)

    assert in_child(program) == ExitCode.OK
    assert kept.read_text() == ""


def call(program: str) -> int:
    """Run one command of a program in this process."""
    name, *arguments = COMMANDS[program]
    return MAINS[name](arguments)


def own_lines(said: str) -> list[str]:
    """Return what is said besides warnings about the results, and progress."""
    return [line for line in said.splitlines() if ": error: " in line or "Traceback" in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_quietly_when_its_reader_has(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with broken():
        code = call(command)
    assert (code, own_lines(capsys.readouterr().err)) == (ExitCode.OK, [])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_tells_of_a_full_disk(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with full():
        assert call(command) == ExitCode.DISK_FULL
    (line,) = own_lines(capsys.readouterr().err)
    assert "No space left on device; free some space" in line


def run(program: str, redirection: str, *descriptors: int) -> tuple[int, str]:
    """Run `PROGRAM --help` with a redirection by a shell; return its exit code and standard error."""
    done = subprocess.run(
        ["bash", "-c", f'"$1" --help {redirection}', "bash", str(BIN / program)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
        pass_fds=descriptors,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("program", MAINS)
def test_every_program_tells_of_a_closed_output(program: str) -> None:
    assert run(program, ">&-") == (ExitCode.ENVIRONMENT, f"{program}: error: {entry.CLOSED}\n")


def test_nothing_is_said_at_exit() -> None:
    """Python itself flushes standard output once more, and complains."""
    code, said = run("clock-harness", ">/dev/full")
    assert code == ExitCode.DISK_FULL
    assert len(said.splitlines()) == 1
    pipe = pipe_without_reader()
    assert run("clock-harness", f">&{pipe}", pipe) == (ExitCode.OK, "")
    os.close(pipe)
