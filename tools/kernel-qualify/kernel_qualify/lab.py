"""lpar-lab as a user runs it, with guests apart from the user's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hotplug_common import process
from hotplug_common.guest import deadlock
from hotplug_common.guest.deadlock import DeadlockError
from hotplug_host.errors import ExitCode, ToolError

BIN = Path(sys.executable).parent
MARK = "LPAR_LAB_TEST"


class Lab:
    """A lab with its state below `folder`; caches are the user's, so that kernels are built once."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.folder = folder
        self.guests = folder / "state/lpar-lab/guests"
        self.mark = f"{MARK}={uuid.uuid4()}"
        self.project = self._project(project)
        self.environment = {
            **os.environ,
            **dict([self.mark.split("=")]),
            "XDG_STATE_HOME": str(folder / "state"),
            "LPAR_LAB_PROJECT": str(self.project),
        }

    def _project(self, original: Path) -> Path:
        """Make a checkout that differs from the original in one thing: lab.yml is its own."""
        project = self.folder / "project"
        (project / "inventory").mkdir(parents=True)
        for part in ("ansible", "kernel-patches", "inventory/group_vars"):
            (project / part).symlink_to(original / part)
        return project

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start lpar-lab; its output can be read when it has ended."""
        return subprocess.Popen(
            [BIN / "lpar-lab", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *arguments: str | Path, stdin: bytes = b"", timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Run lpar-lab to its end.

        Raises ToolError (TIMEOUT) after `timeout` seconds; what lpar-lab started has ended then.
        """
        words = [BIN / "lpar-lab", *arguments]
        try:
            done = process.run(words, env=self.environment, merge_errors=False, stdin=stdin, timeout=timeout)
        except ToolError as error:
            # The path alone would not tell which command it was.
            raise ToolError(f"{arguments[0]}: {error.message}", error.hint, error.code) from None
        return subprocess.CompletedProcess(words, done.returncode, done.output, done.errors)

    def must(self, *arguments: str | Path, stdin: bytes = b"", timeout: float = 600) -> str:
        """Run lpar-lab, which has to succeed; return its standard output.

        Raises ToolError with lpar-lab's own exit code, or TIMEOUT after `timeout` seconds.
        """
        done = self.run(*arguments, stdin=stdin, timeout=timeout)
        if done.returncode:
            raise failed(str(arguments[0]), done.returncode, done.stderr)
        return done.stdout

    def play(
        self, playbook: str, guest: str, variables: dict[str, Any], *options: str, timeout: float = 1800
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook of ansible/playbooks against a running guest."""
        with self.playing(playbook, guest, variables, *options) as command:
            output, errors = command.communicate(timeout=timeout)
        return subprocess.CompletedProcess(command.args, command.returncode, output, errors)

    @contextmanager
    def playing(
        self, playbook: str, guest: str, variables: dict[str, Any], *options: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a playbook as start_play() does; end it and its tasks when the block raises."""
        with self.start_play(playbook, guest, variables, *options) as command:
            try:
                yield command
            except BaseException:
                # Popen would wait for its end. It passes the signal on to its tasks.
                process.end_child(command)
                raise

    def start_play(
        self, playbook: str, guest: str, variables: dict[str, Any], *options: str
    ) -> subprocess.Popen[str]:
        """Start a playbook of ansible/playbooks against a running guest; it prints each task as it begins."""
        chosen = self.folder / f"vars-{uuid.uuid4()}.json"
        chosen.write_text(json.dumps(variables))
        return subprocess.Popen(
            [
                *(BIN / "ansible-playbook", self.project / "ansible/playbooks" / playbook),
                *("-i", self.project / "inventory/lab.yml", "--limit", guest, "-e", f"@{chosen}"),
                *options,
            ],
            env={
                **self.environment,
                "ANSIBLE_CONFIG": str(self.project / "ansible/ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
                # With either left out, a task is named only once it has ended.
                "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "1",
                "PYTHONUNBUFFERED": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def status(self) -> dict[str, dict[str, Any]]:
        """Return what `status --json` prints, by guest."""
        return {row["name"]: row for row in json.loads(self.must("status", "--json"))}


def failed(command: str, code: int, errors: str) -> ToolError:
    """Return the fault that ended `lpar-lab COMMAND` with an exit code, in lpar-lab's own last line."""
    known = code in list(ExitCode) and code != ExitCode.OK
    why = process.last_line(errors).removeprefix("lpar-lab: error: ")
    who, sign, _ = why.partition(f": {deadlock.SIGN}")
    if sign:
        return DeadlockError(f"lpar-lab {command}: {who}")
    return ToolError(f"lpar-lab {command}: {why}", code=ExitCode(code) if known else ExitCode.INTERNAL)


@contextmanager
def opened(folder: Path, project: Path) -> Iterator[Lab]:
    """Give a lab in an empty folder; its guests are taken down afterwards."""
    lab = Lab(folder, project)
    try:
        yield lab
    finally:
        lab.must("down", "--all")
