"""Commands of the user's that run before and after each transition, off the clock.

A command line is split into words as a POSIX shell splits it (quotes and backslashes), and the first
word is started with the others as its arguments. No shell takes part: there are no variables, no
patterns, no pipes. Who wants them writes `sh -c '...'` or a script.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from hotplug_host.child import TERMINATE_GRACE_S, describe_failure
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest
from hotplug_host.timing.step import Step

#: How long a second signal may take to be noticed while a hook runs.
POLL_S = 0.5


@dataclass(frozen=True)
class Hook:
    """One command: the option it was given with, its text, and the words that get started."""

    option: str
    text: str
    words: tuple[str, ...]


def parse_hook(option: str, text: str | None) -> Hook | None:
    """Return the hook TEXT is; None without one. ToolError (USAGE) when it is no command line."""
    if text is None:
        return None
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise _usage(f"{option} {text!r}: {error}", "quote it as in a shell") from None
    if not words:
        raise _usage(f"{option} is empty", "give a command, or leave the option out")
    if "\0" in text:
        raise _usage(f"{option} {text!r}: no argument can hold a null byte", "take it out")
    return Hook(option, text, words)


def check_hook(hook: Hook | None) -> None:
    """Refuse a command that is not there (ToolError, ENVIRONMENT) before anything is switched."""
    if hook is not None and shutil.which(hook.words[0]) is None:
        raise ToolError(
            f"{hook.option}: there is no program {hook.words[0]!r}",
            "give its path; for a shell's own commands, pipes and variables write sh -c '...'",
            ExitCode.ENVIRONMENT,
        )


@dataclass(frozen=True)
class Hooks:
    """The commands of one run; either may be missing. TIMEOUT_S is for each of them."""

    prepare: Hook | None
    cleanup: Hook | None
    timeout_s: float

    def check(self) -> None:
        """Refuse commands that are not there (ToolError, ENVIRONMENT)."""
        check_hook(self.prepare)
        check_hook(self.cleanup)

    def run_prepare(self, step: Step, stop: StopRequest) -> str | None:
        """Run --prepare before a step; returns what went wrong, None when nothing did."""
        return self._run(self.prepare, step, stop)

    def run_cleanup(self, step: Step) -> str | None:
        """Run --cleanup after a step. It undoes what --prepare did, so no signal keeps it from running."""
        return self._run(self.cleanup, step, None)

    def _run(self, hook: Hook | None, step: Step, stop: StopRequest | None) -> str | None:
        if hook is None:
            return None
        variables = {
            "HOTPLUG_TIMER_OPERATION": step.operation.name,
            "HOTPLUG_TIMER_PHASE": step.phase,
            "HOTPLUG_TIMER_INDEX": str(step.index),
        }
        return run_hook(hook, variables, self.timeout_s, stop)


def run_hook(
    hook: Hook, variables: Mapping[str, str], timeout_s: float, stop: StopRequest | None
) -> str | None:
    """Run a hook to its end; returns what went wrong, None when nothing did.

    It is in a session of its own, so Ctrl-C does not reach it; a second signal to STOP ends it. What it
    leaves running in the background is not waited for.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                hook.words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **variables},
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            return f"{hook.option}: {hook.words[0]} did not start: {reason}"
        problem = _wait(process, timeout_s, stop)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if problem is not None:
        return f"{hook.option}: {hook.words[0]} {problem}"
    if process.returncode == 0:
        return None
    return f"{hook.option}: {describe_failure(hook.words, process.returncode, text)}"


def _wait(process: subprocess.Popen[bytes], timeout_s: float, stop: StopRequest | None) -> str | None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            process.wait(min(POLL_S, max(deadline - time.monotonic(), 0.0)))
        except subprocess.TimeoutExpired:
            if stop is not None and stop.count >= 2:
                _end(process)
                return "was ended early by a second signal"
            if time.monotonic() >= deadline:
                _end(process)
                return f"did not finish within {timeout_s:g} s"
        else:
            return None


def _end(process: subprocess.Popen[bytes]) -> None:
    for signum in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, signum)
        try:
            process.wait(TERMINATE_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        return


def _usage(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.USAGE)
