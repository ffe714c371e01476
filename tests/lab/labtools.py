"""lpar-lab as a user runs it, with guests and processes that cannot be mistaken for anybody else's."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.reader import Run, read_files
from kernel_qualify import lab
from kernel_qualify.lab import BIN
from tests import ROOT

T = TypeVar("T")
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


class Lab(lab.Lab):
    """The lab of kernel-qualify, and what faults and hosts' tests do to its guests."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ROOT)

    @property
    def inventory(self) -> str:
        return (self.project / "inventory/lab.yml").read_text()

    def must(self, *arguments: str | Path, stdin: bytes = b"", timeout: float = 600) -> str:
        """Run lpar-lab, which has to succeed; return its standard output."""
        done = self.run(*arguments, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{arguments}: exit code {done.returncode}\n{done.stderr[-4000:]}"
        return done.stdout

    def answer(self, guest: str, command: str, seconds: float) -> str:
        """What a guest answers to a command, stripped; empty while it cannot.

        One that goes down, or writes a dump, may hold a connection: it is given up after `seconds`.
        """
        try:
            done = self.run("ssh", guest, "--", command, timeout=seconds)
        except ToolError as error:
            if error.code is not ExitCode.TIMEOUT:
                raise
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def molecule(
        self, command: str, scenario: str, timeout: float = 3600
    ) -> subprocess.CompletedProcess[str]:
        """Run a scenario of ansible/molecule, with its guests and inventory where this lab has its own."""
        return subprocess.run(
            [BIN / "molecule", command, "--scenario-name", scenario],
            cwd=ROOT / "ansible",
            env={
                **self.environment,
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "MOLECULE_EPHEMERAL_DIRECTORY": str(self.folder),
                # A border breaks lines.
                "MOLECULE_COMMAND_BORDERS": "false",
                "ANSIBLE_NOCOLOR": "1",
                "NO_COLOR": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            text=True,
            check=False,
        )

    def processes(self) -> dict[int, list[str]]:
        """The processes that descend from this lab's commands, wherever they went: pid to arguments."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{self.mark}\0".encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_text().split("\0")[:-1]
            except OSError:
                continue  # ended meanwhile, or another user's
        return found

    def qemu(self, guest: str) -> int | None:
        """The pid of a guest's QEMU."""
        named = [
            pid
            for pid, words in self.processes().items()
            if words and words[0].startswith("qemu-system-") and f"lpar-lab-{guest}" in words
        ]
        return named[0] if named else None

    def crash_kernel(self, guest: str) -> None:
        """Make a running guest's kernel panic, a second from now: SSH would hang on a crashed kernel."""
        crash = 'nohup sh -c "sleep 1; echo c > /proc/sysrq-trigger" > /dev/null 2>&1 &'
        self.must("ssh", guest, "--", crash, timeout=120)

    def install_timer(self, guest: str, folder: Path) -> None:
        """Put the copy of the timer that travels into a guest, as hotplug-timer.pyz; made in `folder`."""
        bundle = folder / "hotplug-timer.pyz"
        subprocess.run([BIN / "hotplug-timer", "bundle", "-o", bundle], check=True, capture_output=True)
        self.must("ssh", guest, "--", "cat > hotplug-timer.pyz", stdin=bundle.read_bytes())

    def kill_qemu(self, guest: str) -> None:
        """End a guest's QEMU as the out-of-memory killer would."""
        pid = self.qemu(guest)
        assert pid, f"no QEMU runs {guest}"
        os.kill(pid, signal.SIGKILL)

    def assert_empty(self) -> None:
        """Fail when a guest, a process or an inventory entry is left."""
        wait_for(lambda: not self.processes(), 20)
        assert not self.guests.exists() or not list(self.guests.iterdir())
        assert self.status() == {}


def timed(lab: Lab, guest: str, variant: str, iterations: int, folder: Path) -> Run:
    """Time SMT off and on in a guest with the copy of the timer that travels; return the checked result."""
    lab.install_timer(guest, folder)
    command = f"python3 hotplug-timer.pyz run smt=off smt=on --variant {variant} --iterations {iterations}"
    lab.must("ssh", guest, "--", *command.split(), "--settle=0", "--output", "result.jsonl", timeout=600)
    result = folder / f"{variant}.jsonl"
    result.write_text(lab.must("ssh", guest, "--", "cat", "result.jsonl", ";", "rm", "result.jsonl"))
    (run,) = read_files([result]).runs
    assert (run.outcome, run.restored, run.host.emulated) == ("complete", True, True)
    assert [item.status for item in run.iterations] == ["ok"] * (2 * iterations + 2)
    return run


def switch(lab: Lab, guest: str, folder: Path) -> Run:
    """Time SMT off and on in a guest of 2 cores with 2 threads."""
    run = timed(lab, guest, "here", 2, folder)
    assert (run.shape.cores, run.shape.threads_per_core) == (2, 2)
    return run


def reboot(lab: Lab, guest: str) -> None:
    """Reboot as anybody would, and wait until another boot answers."""
    rebooted(lab, guest, lambda: lab.must("ssh", guest, "--", "systemctl --no-block reboot"))


def rebooted(lab: Lab, guest: str, ask: Callable[[], object], seconds: float = 900) -> None:
    """Do what makes a guest boot, and wait until another boot answers."""
    before = lab.must("ssh", guest, "--", BOOT_ID).strip()
    ask()

    def again() -> bool:
        return lab.answer(guest, BOOT_ID, 300) not in ("", before)

    wait_for(again, seconds)


def wait_while(command: subprocess.Popen[str], look: Callable[[], T | None], seconds: float) -> T:
    """Wait for what `look` finds while a command runs; fails with what it said when it ends before."""

    def still() -> T | None:
        found = look()
        if not found and command.poll() is not None:
            raise AssertionError(f"ended with {command.returncode} too early:\n{command.communicate()[1]}")
        return found

    return wait_for(still, seconds)


def wait_for(look: Callable[[], T | None], seconds: float) -> T:
    """Wait until `look` finds something, and return it; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing within {seconds:g} s"
        time.sleep(0.2)
    return found


@contextmanager
def opened(folder: Path) -> Iterator[Lab]:
    """Give a lab; its guests are taken down afterwards, and nothing of it may be left."""
    made = Lab(folder)
    yield made
    made.must("down", "--all")
    made.assert_empty()
