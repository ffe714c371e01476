"""A process that holds changed kernel settings and puts them back, whatever becomes of the tool.

It is forked before anything is changed, and is in a session of its own, so neither a Ctrl-C nor the end
of the tool's terminal or process group reaches it. It does all the writing: only it knows what was
written, so only it restores, once. It restores

- when the tool asks for it, after what they were changed for;
- when the tool is gone, SIGKILL included: the pipe from the tool is closed then;
- when it is told to end itself (SIGTERM, SIGINT, SIGHUP), as a service manager does that ends a unit;
- when the tool has not asked for it long after that should have been over.

The tool, for its part, sees by the other pipe when the guardian was killed, and restores then. Left is
the case that both are killed by SIGKILL within the same second. A transient systemd timer would cover
it, but needs systemd and comes only after the longest time a switch may take, an hour on the machines
this is for; what is left behind then is refused by name at the next switch.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.rcu import RCU_EXPEDITED
from hotplug_host.setting import Setting
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs

SET, RESTORE = b"s", b"r"
#: What the guardian reports.
READY, PROBLEM, OVER = "ready", "problem", "over"
#: How long the guardian may take for what it was asked to do.
ANSWER_S = 60.0


@dataclass(frozen=True)
class Purpose:
    """Which settings are held, and the words for it."""

    #: The file whose lock is that on all of them.
    lock: str
    #: As in "cannot change RCU settings".
    what: str
    #: Who may hold them at the same time.
    command: str
    #: What to do without.
    without: str

    @property
    def program(self) -> str:
        """Return the program that its messages begin with."""
        return self.command.partition(" ")[0]


RCU = Purpose(
    lock=RCU_EXPEDITED,
    what="RCU settings",
    command="hotplug-timer smt --expedite",
    without="switch without --expedite",
)


@contextlib.contextmanager
def lock_settings(fs: Sysfs, purpose: Purpose = RCU) -> Iterator[int]:
    """Hold the lock on the settings inside the block, by the descriptor given; ToolError when another has it.

    It is a lock on the kernel's own file: it goes with the last process that holds it, and leaves
    nothing behind.
    """
    try:
        descriptor = os.open(fs.path(purpose.lock), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(
            f"cannot open {fs.path(purpose.lock)}: {error.strerror}",
            purpose.without,
            ExitCode.ENVIRONMENT,
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"another {purpose.command} is at work",
                "wait until it is done",
                ExitCode.ENVIRONMENT,
            ) from None
        yield descriptor
    finally:
        os.close(descriptor)


class Guardian:
    """The tool's end of it: `start`, `set`, `look` once in a while, and `restore` at last.

    LOCK is the descriptor of `lock_settings`, MOST_S the seconds after which the guardian restores unasked.
    """

    def __init__(
        self, fs: Sysfs, settings: tuple[Setting, ...], lock: int, most_s: float, purpose: Purpose = RCU
    ) -> None:
        self._fs = fs
        self._settings = settings
        self._purpose = purpose
        self._lock = lock
        self._most_s = most_s
        self._buffer = b""
        self._problems: list[str] = []
        self._restored = False
        self._ended = False
        #: Why the settings were put back before that was asked for; None when they were not.
        self.early: str | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return what no other child of the tool may hold: the guardian would not see the tool's end."""
        return (self._commands, self._reports, self._lock)

    def start(self) -> None:
        """Fork the guardian. Nothing is changed yet."""
        commands, self._commands = os.pipe()
        self._reports, reports = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._commands)
            os.close(self._reports)
            _guard(self._fs, self._settings, (commands, reports), self._most_s, self._purpose)
        os.close(commands)
        os.close(reports)

    def set(self) -> None:
        """Have the settings changed. ToolError when that failed: they are back then."""
        self._ask(SET)
        if self._read_reports(READY):
            return
        problems = self.restore() or [self.early or "the process that changes them ended"]
        raise ToolError(
            f"cannot change {self._purpose.what}: {'; '.join(problems)}",
            f"nothing was done; {self._purpose.without}",
            ExitCode.ENVIRONMENT,
        )

    def look(self) -> bool:
        """Whether the guardian still is at its post. When it was killed, the settings are put back now."""
        if not self._ended and select.select([self._reports], [], [], 0)[0]:
            self._end()
        return not self._ended

    def restore(self) -> list[str]:
        """Have the settings put back; returns what is not as it was before, in words."""
        if not self._ended:
            self._ask(RESTORE)
            self._end()
        return self._problems

    def _end(self) -> None:
        """Take the guardian's last reports; where it did not come to its end, do its work."""
        self._ended = True
        self._read_reports(OVER)
        if not self._restored:
            # It has ended, or does not answer: from here on it must not write.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        for descriptor in (self._commands, self._reports):
            os.close(descriptor)
        os.waitpid(self.pid, 0)
        if not self._restored:
            self.early = (
                f"the process that holds {self._purpose.what} was killed, so they were put back in its place"
            )
            self._problems += _put_back_unknown(self._fs, self._settings)

    def _ask(self, command: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # its end shows when its answer is read
            os.write(self._commands, command)

    def _read_reports(self, last: str) -> bool:
        """Take reports up to one of LAST; returns whether it came."""
        while True:
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                event, text = json.loads(line)
                if event == PROBLEM:
                    self._problems.append(text)
                elif event == OVER:
                    self._restored, self.early = True, text or None
                if event in (last, OVER):
                    return bool(event == last)
            if not select.select([self._reports], [], [], ANSWER_S)[0]:
                return False
            chunk = os.read(self._reports, 65536)
            if not chunk:
                return False
            self._buffer += chunk


def _guard(
    fs: Sysfs,
    settings: tuple[Setting, ...],
    pipes: tuple[int, int],
    most_s: float,
    purpose: Purpose,
) -> NoReturn:
    """Be the guardian, with the pipes for commands and reports: never returns."""
    commands, reports = pipes
    try:
        os.setsid()
        detach(fs)
        stop, holder = StopRequest(), _Holder(fs, reports, purpose.program)
        with stop.installed():
            try:
                command, why = _await(commands, stop, most_s, purpose.what)
                if command == SET and holder.set_all(settings):
                    _, why = _await(commands, stop, most_s, purpose.what)
            finally:
                holder.restore_all()
            holder.report(OVER, why)
    finally:
        os._exit(0)


def detach(fs: Sysfs) -> None:
    """Keep no reader of the tool's output waiting, and be the last to go when memory runs out."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    if fs.is_host:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("-1000", encoding="ascii")


class _Holder:
    """What the guardian wrote, and putting that back."""

    def __init__(self, fs: Sysfs, reports: int, program: str) -> None:
        self._fs = fs
        self._program = program
        self._reports = reports
        self._written: list[Setting] = []

    def set_all(self, settings: tuple[Setting, ...]) -> bool:
        """Change the settings; returns whether all of them are."""
        for setting in settings:
            problem = self._set(setting)
            if problem is not None:
                self.report(PROBLEM, problem)
                return False
        self.report(READY)
        return True

    def restore_all(self) -> None:
        """Put back what was written and is still so; report, and leave alone, what somebody changed."""
        while self._written:
            setting = self._written.pop()
            problem = put_back(self._fs, setting)
            if problem is not None:
                self.report(PROBLEM, problem)

    def report(self, event: str, text: str = "") -> None:
        """Tell the tool; where it is gone, tell its terminal what is not as it was."""
        line = json.dumps([event, text]).encode() + b"\n"
        try:
            os.write(self._reports, line)
        except OSError:
            if event == PROBLEM:
                with contextlib.suppress(OSError):
                    os.write(2, f"{self._program}: {text}\n".encode())

    def _set(self, setting: Setting) -> str | None:
        path = self._fs.path(setting.name)
        now = self._fs.read_optional(setting.name)
        if now != setting.before:
            return f"{path} said {setting.before} and says {now} now: somebody else changed it"
        # Before the write: what comes in between has to find it here.
        self._written.append(setting)
        try:
            self._fs.write(setting.name, setting.during)
        except OSError as error:
            self._written.pop()
            return f"cannot write {setting.during} to {path}: {error.strerror}"
        now = self._fs.read_optional(setting.name)
        if now == setting.during:
            return None
        if now == setting.before:
            # Not taken. A kernel may keep it in mind all the same, as it does with a clocksource.
            self._written.pop()
            with contextlib.suppress(OSError):
                self._fs.write(setting.name, setting.before)
        return f"{path} says {now} after {setting.during} was written to it"


def put_back(fs: Sysfs, setting: Setting) -> str | None:
    """Put a setting that was written back; returns why it is not, None when it is."""
    path = fs.path(setting.name)
    now = fs.read_optional(setting.name)
    if now != setting.during:
        return (
            f"{path} says {now}, not the {setting.during} that was written there: somebody else changed it,"
            f" so it was left alone (before it was changed it said {setting.before})"
        )
    try:
        fs.write(setting.name, setting.before)
    except OSError as error:
        return f"cannot write {setting.before} back to {path}: {error.strerror}"
    return None


def _put_back_unknown(fs: Sysfs, settings: tuple[Setting, ...]) -> list[str]:
    """Put back in the place of a guardian that was killed: how far it had come is seen by the values."""
    changed = [setting for setting in settings if fs.read_optional(setting.name) != setting.before]
    return [problem for setting in reversed(changed) if (problem := put_back(fs, setting))]


def _await(commands: int, stop: StopRequest, most_s: float, what: str) -> tuple[bytes, str]:
    """Return the tool's next command, nothing when it is gone; or else why none was waited for."""
    ready = [] if stop.requested else select.select([commands, stop.fileno()], [], [], most_s)[0]
    if commands in ready and not stop.requested:
        return os.read(commands, 1), ""
    if stop.first is not None:
        return b"", f"{what} were put back early, as the process that holds them got {stop.first.name}"
    return b"", f"{what} were put back early: no request came for {most_s:g} s"
