import errno
import io
import os
import re
from itertools import count

import pytest

from hotplug_host.errors import ToolError
from hotplug_host.progress import Progress, format_duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_terminal_gets_one_line_that_is_rewritten() -> None:
    terminal = Terminal()
    progress = Progress(2, terminal, lambda: 5)
    progress.begin("smt=off timed 1/1", 2)
    progress.tick(1.0)
    progress.step("smt=off", 1.5)
    progress.step("smt=on", None)
    assert terminal.getvalue().count("\r\x1b[K") == 3
    assert terminal.getvalue().count("\n") == 1
    assert "[1/2] smt=off timed 1/1: 5 CPUs online, 2 wanted, 1 s so far, " in terminal.getvalue()
    assert "[2/2] smt=on: counted, 0 s to go" in terminal.getvalue()


def test_a_log_gets_a_plain_line_now_and_then() -> None:
    """One a second would be thousands for one switch."""
    stream, reads = io.StringIO(), count(1)
    progress = Progress(2, stream, lambda: next(reads))
    progress.begin("smt=off timed 1/1", 2)
    for second in range(1, 91):
        progress.tick(float(second))
    lines = stream.getvalue().splitlines()
    assert [re.findall(r"(\S.*) so far", line)[0].split(", ")[-1] for line in lines] == [
        "30 s",
        "1 min 00 s",
        "1 min 30 s",
    ]
    assert "\r" not in stream.getvalue()
    # sysfs is read for a line that is printed, and for no other.
    assert next(reads) == 4
    # The next switch starts to count anew.
    progress.begin("smt=on timed 1/1", 8)
    progress.tick(1.0)
    assert len(stream.getvalue().splitlines()) == 3


def test_time_to_go_comes_from_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal = Clock(monkeypatch), Terminal()
    progress = Progress(4, terminal, lambda: 5)
    progress.begin("a", 2)
    progress.tick(3.0)
    assert "time to go not known yet" in terminal.getvalue()
    clock.now += 60
    progress.step("a", 60.0)
    assert terminal.getvalue().endswith("3 min 00 s to go")
    progress.begin("b", 2)
    clock.now += 20
    progress.tick(20.0)
    assert terminal.getvalue().endswith("20 s so far, 2 min 40 s to go")
    clock.now += 1000  # never less than nothing
    progress.tick(1020.0)
    assert terminal.getvalue().endswith("so far, 0 s to go")


def test_a_reader_that_is_stuck_does_not_hold_up_what_is_timed() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    with os.fdopen(write_end, "w") as stream:
        progress = Progress(2, stream, lambda: pytest.fail("a line that cannot be printed"))
        progress.begin("a", 2)
        progress.tick(31.0)
        os.close(read_end)


def test_a_terminal_that_is_gone_keeps_nothing_from_going_on() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def unreadable() -> int:
        raise ToolError("cannot read online")

    progress = Progress(2, Gone(), lambda: 5)
    progress.begin("a", 2)
    progress.tick(1.0)
    progress.note("stop requested")
    progress.step("a", 1.0)
    Progress(2, Terminal(), unreadable).tick(1.0)
