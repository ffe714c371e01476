"""Guests to prove something in: boot one, run a script in it with progress, keep everything it said."""

import json
import queue
import shutil
import subprocess
import sys
import threading
import time
import zipapp
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import bare
import logs

from hotplug_common.guest import console
from tests import ROOT
from tests.lab.labtools import Lab

Say = Callable[[str], None]
SCRIPTS = Path(__file__).with_name("guest")
RESULTS = ROOT / "results/validation"
ARCHIVE = f"{bare.FOLDER}/{bare.ARCHIVE}"
TRIES = 4
"""How often a bare guest is started whose emulator aborts at boot."""
BOOT_S = 5400.0
"""Kernel and base disk may have to be built first."""
CLOCK_CHECK = "clock-check.pyz"
"""The bundle of clock-check among a guest's files."""
LOUD = "loglevel=8 log_buf_len=8M"
"""The console is the record that survives a crash, so it gets everything the kernel logs."""


@dataclass(frozen=True)
class Order:
    """Which guest."""

    arch: str
    base: str
    cores: int
    threads: int
    topics: tuple[str, ...] = ()
    variant: str = "patched"
    kernel: Path | None = None

    def up(self, topics: Sequence[str]) -> list[str]:
        """The words for `lpar-lab up` that say which kernel in which machine."""
        words = ["--arch", self.arch, "--base", self.base]
        words += ["--cores", str(self.cores), "--threads", str(self.threads)]
        if self.kernel:
            return [*words, "--kernel", str(self.kernel)]
        every = (*topics, *self.topics)
        return [*words, "--variant", self.variant, *(word for topic in every for word in ("--config", topic))]

    @property
    def kasan(self) -> bool:
        """Whether KASAN was ordered, which takes memory, and on ppc64le the radix MMU."""
        return "kasan" in self.topics


class SilenceError(AssertionError):
    """A guest said nothing for too long."""


def lines_of(command: subprocess.Popen[str], silence: float) -> Iterator[str]:
    """What a command writes, to both pipes, line by line; a command that is silent too long is ended."""
    lines: queue.Queue[str | None] = queue.Queue()

    def pump(stream: IO[str]) -> None:
        for line in stream:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    streams = [stream for stream in (command.stdout, command.stderr) if stream]
    for stream in streams:
        threading.Thread(target=pump, args=[stream], daemon=True).start()
    ended = 0
    while ended < len(streams):
        try:
            line = lines.get(timeout=silence)
        except queue.Empty:
            command.kill()
            raise SilenceError(f"nothing for {silence:g} s from {command.args!r}") from None
        if line is None:
            ended += 1
        else:
            yield line


def is_record(line: str) -> bool:
    """Whether a line of a script's is one."""
    return line.startswith('{"kind": ')


def read_records(lines: list[str]) -> list[dict[str, Any]]:
    """The records among the lines of a script."""
    return [json.loads(line) for line in lines if is_record(line)]


def until_record(lines: Iterator[str]) -> Iterator[str]:
    """The lines up to the next record, which is the last of them."""
    for line in lines:
        yield line
        if is_record(line):
            return


class Proving:
    """The guest of one test, and the folder with what came out of it."""

    def __init__(self, lab: Lab, order: Order, results: Path, say: Say) -> None:
        self.lab = lab
        self.order = order
        self.results = results
        self.say = say
        self.name = "proving"
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)

    def boot(self, *topics: str, append: str = "", memory: int = 0) -> None:
        """Start the guest, with these configuration topics beside those that were ordered.

        `memory` is that many MiB more than such a guest has anyway.
        """
        words = ["up", self.name, *self.order.up(topics), "--timeout", "1200"]
        cpus = self.order.cores * self.order.threads
        if self.order.kasan or memory:
            words += ["--memory", str(1024 + memory + (128 if self.order.kasan else 16) * cpus)]
        if self.order.kasan:
            append += " disable_radix=off" if self.order.arch == "ppc64le" else ""
        command = self.lab.start(*words, "--append", f"{LOUD} {append}".strip())
        last = ""
        for last in lines_of(command, BOOT_S):
            self.say(f"  {last}")
        assert command.wait() == 0, last
        self.send(self._archive(), ARCHIVE)

    def send(self, content: bytes, path: str) -> None:
        """Write a file in the guest."""
        self.lab.must("ssh", self.name, "--", f"cat > {path}", stdin=content, timeout=300)

    def image(self) -> bytes:
        """The kernel that was ordered, as it is booted."""
        return Path(json.loads(self._kernel().read_text())["image"]).read_bytes()

    def clock_check(self) -> bytes:
        """clock-check for the guest, in one file."""
        target = self.results / CLOCK_CHECK
        program = Path(sys.executable).with_name("clock-check")
        words: list[str | Path] = [program, "bundle", self.order.arch, "-o", target]
        subprocess.run(words, check=True, capture_output=True)
        return target.read_bytes()

    def _archive(self) -> bytes:
        target = self.results / "guest.pyz"
        zipapp.create_archive(SCRIPTS, target, filter=lambda path: path.suffix == ".py")
        return target.read_bytes()

    def script(self, name: str, *options: str, silence: float = 300) -> list[dict[str, Any]]:
        """Run a script in the guest; return its records. Fails when it fails, or falls silent."""
        command = self.lab.start("ssh", self.name, "--", "python3", ARCHIVE, name, *options)
        lines: list[str] = []
        try:
            lines += self._heard(name, command, silence)
        except SilenceError as error:
            raise SilenceError(
                f"{error}; the console ends with:\n" + "\n".join(self.console()[-40:])
            ) from None
        assert command.wait() == 0, "\n".join([*lines[-20:], "console:", *self.console()[-20:]])
        return read_records(lines)

    def alone(
        self,
        name: str,
        *options: str,
        files: Mapping[str, bytes] | None = None,
        append: str = "",
        memory: int = 0,
        silence: float = 300,
        one_thread: bool = False,
        icount: bool = False,
    ) -> list[dict[str, Any]]:
        """Boot a guest that runs a script and nothing else; return its records. Fails when it fails.

        For hundreds of CPUs: see bare.py, also for `one_thread` and `icount`. `files` are for the script;
        `memory` as with boot().
        """
        self.lab.must("build-rootfs", "--arch", self.order.arch, timeout=BOOT_S)
        every = {bare.ARCHIVE: self._archive(), **(files or {})}
        for _ in range(TRIES):
            with bare.machine(
                self.lab,
                self._kernel(),
                (self.order.cores, self.order.threads),
                (name, *options),
                files=every,
                extra=f"{LOUD} {append}".strip(),
                extra_mb=memory,
                one_thread=one_thread,
                icount=icount,
            ) as guest:
                lines = list(self._until_ended(guest, silence))
                if read_records(lines) or not guest.aborted():
                    break
                self.say("  QEMU has aborted before the guest said anything; once more")
        assert lines and lines[-1] == f"{bare.ENDED}0", "\n".join(["the console ends with:", *lines[-40:]])
        return read_records(lines)

    def _until_ended(self, guest: bare.Guest, silence: float) -> Iterator[str]:
        """What a bare guest's console gets, up to the end of its script; woken where it asks for that."""
        lines = self._heard("console", guest.output, silence)
        for line in lines:
            yield line
            if line.startswith(bare.ENDED):
                return
            if line.startswith(bare.ASLEEP):
                with guest.keys_pressed():
                    yield from until_record(lines)

    def _kernel(self) -> Path:
        """Build the kernel that was ordered, or find it; its artifact.json."""
        if self.order.kernel:
            return self.order.kernel
        order = self.order
        words = ["--base", order.base, "--arch", order.arch, "--variant", order.variant]
        words += [word for topic in order.topics for word in ("--config", topic)]
        return Path(self.lab.must("build-kernel", *words, "--print-artifact", timeout=BOOT_S).strip())

    def _heard(self, name: str, command: subprocess.Popen[str], silence: float) -> Iterator[str]:
        """What a command writes, line by line: also kept in the results, and shown as progress."""
        begin = time.monotonic()
        with (self.results / f"{name}.log").open("a") as log:
            for line in lines_of(command, silence):
                log.write(line + "\n")
                log.flush()
                self.say(f"  {time.monotonic() - begin:6.0f} s  {line[:150]}")
                yield line

    def console(self) -> list[str]:
        """What the guest wrote to its console, so far."""
        return console.last_lines(self.lab.guests / self.name / "console.log", 1 << 30)

    def log(self) -> str:
        """The whole console; also kept in the results."""
        text = "\n".join(self.console()) + "\n"
        (self.results / "console.log").write_text(text)
        return text

    def log_problems(self) -> list[str]:
        """What the kernel said against itself since it booted, on the console and in its own buffer."""
        kernel = self.lab.must("ssh", self.name, "--", "dmesg", timeout=300)
        (self.results / "dmesg.log").write_text(kernel)
        both = dict.fromkeys(logs.problems(self.log()) + logs.problems(kernel))
        return [f"the kernel says: {problem}" for problem in both]

    def past_problems(self, log: str, allowed: Sequence[logs.Allowed] = logs.ALLOWED) -> list[str]:
        """The same, of a guest that is gone: the console is what is left of it."""
        return [f"the kernel says: {problem}" for problem in logs.problems(log, allowed)]

    def close(self) -> None:
        """Keep the console and take the guest down."""
        if (self.lab.guests / self.name).exists():
            self.log()
            self.lab.must("down", self.name, timeout=120)


def in_turns(kernels: Sequence[str], boots: int, say: Say) -> Iterator[str]:
    """The kernels, once for each boot, every other time backwards: what changes meanwhile meets all alike."""
    for boot in range(boots):
        for kernel in kernels if boot % 2 == 0 else reversed(kernels):
            say(f"boot {boot + 1} of {boots}: {kernel}")
            yield kernel


def none(problems: list[str]) -> None:
    """Fail with all problems, one a line."""
    if problems:
        raise AssertionError(f"{len(problems)} problem(s)\n" + "\n".join(problems[:60]))
