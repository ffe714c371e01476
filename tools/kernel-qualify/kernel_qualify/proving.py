"""Guests to prove something in: boot one, run a script in it with progress, keep everything it wrote."""

from __future__ import annotations

import json
import queue
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from hotplug_common import bundle, process
from hotplug_common.arch import PPC64LE
from hotplug_common.guest import console, deadlock
from hotplug_common.guest.deadlock import DeadlockError
from hotplug_common.kernel import artifact, series
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify import bare
from kernel_qualify.guest.clocks import CLOCK_CHECK
from kernel_qualify.guest.early import ASLEEP
from kernel_qualify.judge import logs
from kernel_qualify.lab import Lab, failed
from kernel_qualify.patches import patchfiles

ARCHIVE = f"{bare.FOLDER}/{bare.ARCHIVE}"
CONSOLE = "console.log"
"""The file of results with what a guest's console got."""
PACKAGE = Path(__file__).parent
TRIES = 4
"""How often a bare guest is started whose emulator aborts at boot, or waits for itself."""
LOOK_EVERY_S = 5.0
"""How often a silent guest is looked at."""
BOOT_S = 5400.0
"""Kernel and base disk may have to be built first."""
LOUD = "loglevel=8 log_buf_len=8M"
"""The console is the record that survives a crash, so it gets everything the kernel logs."""
MODULES = PACKAGE / "guest-modules.txt"
"""What of a distribution's modules is built, beside those that a host needs in any case."""
BOOTED_FROM = ("DEVTMPFS_MOUNT", "EXT4_FS", "VIRTIO_BLK", "VIRTIO_NET", "VIRTIO_PCI")
"""What a guest needs in the image, where distributions have modules and an initial RAM disk."""
IN_IMAGE = (*BOOTED_FROM, "FUNCTION_PROFILER")
"""With what counts calls, which Debian's kernels lack."""
KASAN = "kasan"
"""The fragment that takes more memory, and the radix MMU on ppc64le."""
KCSAN = "kcsan"
"""The fragment with which only the races of the series count."""
RADIX = "disable_radix=off"
KCSAN_WORDS = "kcsan.udelay_task=2000 kcsan.udelay_interrupt=400 kcsan.skip_watch=1000"
"""Longer and more watches: by default, KCSAN watches one access in 4,000 for 80 us, in which few vCPUs of a
guest have a turn on the host's CPUs."""


@dataclass(frozen=True)
class Order:
    """Which guest: its kernel and its shape. `kernel` is the artifact.json of a kernel that is built."""

    arch: str
    line: str
    cores: int
    threads: int
    fragments: tuple[str, ...] = ()
    variant: str = series.PATCHED
    kernel: Path | None = None
    like: str = ""
    """What the guest is like, beside the lab's own; see qemu.Machine."""
    config: Path | None = None
    """A distribution's configuration, in place of the lab's."""

    @property
    def lineage(self) -> list[str]:
        """lpar-lab's words for the kernel line and the architecture."""
        return ["--line", self.line, "--arch", self.arch]

    def built(self, more: Sequence[str] = ()) -> list[str]:
        """Return lpar-lab's words for variant and fragments, with `more` fragments first."""
        words = ["--variant", self.variant]
        if self.config:
            words += ["--config-from", str(self.config), "--trim-to", str(MODULES)]
            words += [word for symbol in IN_IMAGE for word in ("--enable", f"{symbol}=y")]
        return words + [word for name in (*more, *self.fragments) for word in ("--fragment", name)]

    def up(self, more: Sequence[str] = ()) -> list[str]:
        """Return the words for `lpar-lab up` that choose the kernel and the machine."""
        words = [*self.lineage, "--cores", str(self.cores), "--threads", str(self.threads)]
        words += ["--like", self.like] if self.like else []
        return [*words, *(["--kernel", str(self.kernel)] if self.kernel else self.built(more))]

    @property
    def kasan(self) -> bool:
        """Whether KASAN was ordered, which takes memory."""
        return KASAN in self.fragments

    def words(self, append: str) -> str:
        """Return the words for the kernel's command line: those that the kernel needs, and `append`.

        KASAN needs the radix MMU, and a distribution's kernel may hang on an emulated hash MMU.
        """
        radix = self.arch == PPC64LE.name and (self.kasan or self.config)
        kcsan = KCSAN in self.fragments
        return " ".join(filter(None, [LOUD, append, RADIX if radix else "", KCSAN_WORDS if kcsan else ""]))


class SilenceError(ToolError):
    """A guest wrote nothing for too long."""


def lines_of(
    command: subprocess.Popen[str], silence: float, look: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Yield what a command writes to both pipes, line by line.

    Raises SilenceError when it writes nothing for `silence` seconds. `look` is called every few seconds of
    silence, and may raise a ToolError as well. Either ends the command.
    """
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
            line = _next(lines, silence, look)
        except (queue.Empty, ToolError) as reason:
            process.end_child(command)
            if isinstance(reason, ToolError):
                raise
            words = command.args if isinstance(command.args, Sequence) else [command.args]
            name = Path(str(words[0])).name
            raise SilenceError(f"{name} wrote nothing for {silence:g} s", code=ExitCode.TIMEOUT) from None
        if line is None:
            ended += 1
        else:
            yield line


def _next(lines: queue.Queue[str | None], silence: float, look: Callable[[], None]) -> str | None:
    """Return the next line; queue.Empty when none comes within `silence` seconds."""
    deadline = time.monotonic() + silence
    while (left := deadline - time.monotonic()) > LOOK_EVERY_S:
        with suppress(queue.Empty):
            return lines.get(timeout=LOOK_EVERY_S)
        look()
    return lines.get(timeout=max(left, 0.0))


def is_record(line: str) -> bool:
    """Whether a line of a script's is one."""
    return line.startswith('{"kind": ')


def read_records(lines: list[str]) -> list[dict[str, Any]]:
    """Return the records among the lines of a script."""
    return [json.loads(line) for line in lines if is_record(line)]


def until_record(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines up to the next record, which is the last of them."""
    for line in lines:
        yield line
        if is_record(line):
            return


Heard = Callable[[dict[str, Any]], None]
"""What hears the records of a script while it runs."""


def _overheard(lines: Iterator[str], hear: Heard | None) -> Iterator[str]:
    for line in lines:
        if hear and is_record(line):
            hear(json.loads(line))
        yield line


def archive() -> bytes:
    """Pack the guest's scripts, and of hotplug_host what they import, into one file that Python runs."""
    files = bundle.host_files("kernel_qualify.guest.main", "timing", "preflight")
    sources = [PACKAGE / "__init__.py", *(PACKAGE / "guest").glob("*.py")]
    scripts = {path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes() for path in sources}
    return bundle.pack({**files, **scripts})


class Proving:
    """The guest of one proof, and the folder with what came out of it."""

    def __init__(self, lab: Lab, order: Order, results: Path, say: Say) -> None:
        self.lab = lab
        self.order = order
        self.results = results
        self.say = say
        self.name = "proving"

    def boot(self, *fragments: str, append: str = "", memory: int = 0, words: Sequence[str] = ()) -> None:
        """Start the guest, with these config fragments beside those that were ordered.

        `memory` is that many MiB more than such a guest has anyway; `words` are more of them for `lpar-lab
        up`. Raises ToolError with lpar-lab's code.
        """
        words = ["up", self.name, *self._up(fragments), "--timeout", "1200", *words]
        cpus = self.order.cores * self.order.threads
        if self.order.kasan or memory:
            words += ["--memory", str(1024 + memory + (128 if self.order.kasan else 16) * cpus)]
        self._watched(*words, "--append", self.order.words(append))
        self.send(archive(), ARCHIVE)

    def start(self) -> None:
        """Start the guest as `lpar-lab up` does: what it logs must not slow what is timed there."""
        self._watched("up", self.name, *self._up())

    def _up(self, fragments: Sequence[str] = ()) -> list[str]:
        """Return the order's words for `lpar-lab up`, which builds no distribution's configuration."""
        if not self.order.config:
            return self.order.up(fragments)
        order = replace(self.order, fragments=(*fragments, *self.order.fragments))
        return replace(order, kernel=self.build(order)).up()

    def send(self, content: bytes, path: str) -> None:
        """Write a file in the guest."""
        self.lab.must("ssh", self.name, "--", f"cat > {path}", stdin=content, timeout=300)

    def image(self) -> bytes:
        """Return the kernel that was ordered, as it is booted."""
        return self.kernel().image.read_bytes()

    def clock_check(self) -> dict[str, bytes]:
        """Return clock-check for the guest, in one file, by its name there."""
        target = self.results / CLOCK_CHECK
        program = Path(sys.executable).with_name("clock-check")
        words: list[str | Path] = [program, "bundle", self.order.arch, "-o", target]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ToolError(f"clock-check bundle failed: {done.stderr.strip()}", code=ExitCode.ENVIRONMENT)
        return {CLOCK_CHECK: target.read_bytes()}

    def script(self, name: str, *options: str, silence: float = 300) -> list[dict[str, Any]]:
        """Run a script in the guest; return its records.

        Raises ToolError: GUEST when it fails, TIMEOUT when it falls silent, DeadlockError when the emulator
        waits for itself. The results' folder has its log.
        """
        look = self._look(self.lab.status()[self.name]["pid"])
        # The guest's shell splits what SSH gives it.
        command = self.lab.start("ssh", self.name, "--", shlex.join(["python3", ARCHIVE, name, *options]))
        lines: list[str] = []
        try:
            for line in self._heard(name, command, silence, look):
                lines.append(line)
        except SilenceError as error:
            self._show("console", self.console()[-40:])
            raise SilenceError(f"{name}: {error.message}", self._hint(), error.code) from None
        code = command.wait()
        if code:
            self._show("console", self.console()[-20:])
            last = next((line for line in reversed(lines) if line.strip()), "no output")
            raise ToolError(f"{name} ended with {code} in the guest: {last}", self._hint(), ExitCode.GUEST)
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
        plugin: str = "",
        spare_cores: int = 0,
        beside: Callable[[Path], Heard] | None = None,
    ) -> list[dict[str, Any]]:
        """Boot a guest that runs a script and nothing else; return its records.

        For hundreds of CPUs: see bare.py, also for `one_thread`, `icount`, `plugin` and `spare_cores`.
        `files` are for the script; `memory` as with boot(). `beside` gets the folder of each guest that is
        started, and returns what hears the script's records as they come. Raises ToolError: GUEST when the
        script fails, TIMEOUT when it falls silent, DeadlockError when the emulator waited for itself in all
        of TRIES guests.
        """
        self.lab.must("build-rootfs", "--arch", self.order.arch, timeout=BOOT_S)
        every = {bare.ARCHIVE: archive(), **(files or {})}
        lines: list[str] = []
        for tries in range(1, TRIES + 1):
            with bare.machine(
                self.lab.folder,
                self.kernel(),
                (self.order.cores, self.order.threads),
                (name, *options),
                files=every,
                extra=self.order.words(append),
                extra_mb=memory,
                one_thread=one_thread,
                icount=icount,
                plugin=plugin,
                like=self.order.like,
                spare_cores=spare_cores,
            ) as guest:
                hear = beside(guest.folder) if beside else None
                try:
                    lines = list(_overheard(self._until_ended(guest, silence), hear))
                except DeadlockError as error:
                    if tries == TRIES:
                        raise
                    self.say(f"  {error}; once more")
                    continue
                if read_records(lines) or not guest.aborted():
                    break
                self.say("  QEMU has aborted before the guest wrote anything; once more")
        if not lines or lines[-1] != f"{bare.ENDED}0":
            self._show("console", lines[-40:])
            last = lines[-1] if lines else "the console is silent"
            raise ToolError(f"{name} did not end well in the guest: {last}", self._hint(), ExitCode.GUEST)
        return read_records(lines)

    def _until_ended(self, guest: bare.Guest, silence: float) -> Iterator[str]:
        """Yield what a bare guest's console gets, until its script ends; wake it where it asks for that."""
        lines = self._heard(Path(CONSOLE).stem, guest.output, silence, self._look(guest.emulator.pid))
        for line in lines:
            yield line
            if line.startswith(bare.ENDED):
                return
            if line.startswith(ASLEEP):
                with guest.keys_pressed():
                    yield from until_record(lines)

    def _look(self, pid: int) -> Callable[[], None]:
        """Return what raises DeadlockError once the emulator with this pid waits for itself."""
        standstill = deadlock.Standstill(pid)

        def look() -> None:
            if standstill.found():
                raise DeadlockError(f"guest of {self.order.cores} x {self.order.threads} CPUs")

        return look

    def kernel(self) -> Artifact:
        """Build the kernel that was ordered, or find it."""
        return artifact.load(self.order.kernel or self.build(self.order))

    def build(self, order: Order) -> Path:
        """Build a kernel, or find it; return its artifact.json."""
        words = [*order.lineage, *order.built(), "--print-artifact"]
        lines = map(Path, self._watched("build-kernel", *words))
        return next(line for line in lines if line.is_absolute())

    def play(self, playbook: str, variables: dict[str, Any], silence: float) -> None:
        """Run a playbook against the guest, which prints each task as it begins.

        Raises ToolError: OPERATION when it fails, TIMEOUT when it falls silent. The results' folder has its
        log.
        """
        with self.lab.playing(playbook, self.name, variables) as command:
            lines = list(self._heard("play", command, silence))
        if command.returncode:
            last = process.last_line("\n".join(lines))
            raise ToolError(
                f"{playbook} ended with {command.returncode}: {last}", self._hint(), ExitCode.OPERATION
            )

    def _watched(self, *words: str) -> list[str]:
        """Run lpar-lab, show what it prints, and return the lines; raises ToolError with its code."""
        command = self.lab.start(*words)
        lines: list[str] = []
        for line in lines_of(command, BOOT_S):
            self.say(f"  {line}")
            lines.append(line)
        code = command.wait()
        if code:
            raise failed(words[0], code, lines[-1] if lines else "")
        return lines

    def _heard(
        self,
        name: str,
        command: subprocess.Popen[str],
        silence: float,
        look: Callable[[], None] = lambda: None,
    ) -> Iterator[str]:
        """Yield what a command writes, line by line; keep it in the results, and show it as progress."""
        begin = time.monotonic()
        with (self.results / f"{name}.log").open("a") as log:
            for line in lines_of(command, silence, look):
                log.write(line + "\n")
                log.flush()
                self.say(f"  {time.monotonic() - begin:6.0f} s  {line[:150]}")
                yield line

    def _show(self, what: str, lines: Sequence[str]) -> None:
        for line in lines:
            self.say(f"{what}| {line}")

    def _hint(self) -> str:
        return f"read the logs in {self.results}"

    def console(self) -> list[str]:
        """Return what the guest wrote to its console, so far."""
        return console.last_lines(self.lab.guests / self.name / "console.log", 1 << 30)

    def log(self) -> str:
        """Keep the whole console in the results, and return it."""
        text = "\n".join(self.console()) + "\n"
        (self.results / CONSOLE).write_text(text)
        return text

    def log_problems(self) -> list[str]:
        """Return what the kernel reported against itself since boot, on the console and in its buffer.

        With KCSAN, the races of functions that the series changes, and that it found any at all.
        """
        kernel = self.lab.must("ssh", self.name, "--", "dmesg", timeout=300)
        (self.results / "dmesg.log").write_text(kernel)
        written = self.log()
        if KCSAN in self.order.fragments:
            ours = logs.between(self._changed_functions())
            found = logs.problems_of(written, ours) + logs.problems_of(kernel, ours)
            blind = logs.saw_no_race(written)
        else:
            found, blind = logs.problems(written) + logs.problems(kernel), []
        return [f"the kernel says: {problem}" for problem in dict.fromkeys(found)] + blind

    def _changed_functions(self) -> set[str]:
        """Return the functions that patches of this kernel line change or add."""
        patches = patchfiles.line_patches(self.lab.project / "kernel-patches", self.order.line)
        return {name for patch in patches for name in patch.functions}

    def past_problems(self, log: str, allowed: Sequence[logs.Allowed] = logs.ALLOWED) -> list[str]:
        """Return the same of a guest that is gone: the console is what is left of it."""
        return [f"the kernel says: {problem}" for problem in logs.problems(log, allowed)]

    def bare_problems(self) -> list[str]:
        """Return the same of all guests that alone() has started."""
        return self.past_problems((self.results / CONSOLE).read_text())

    def until_gone(self, seconds: float) -> str:
        """Wait until the guest has powered itself off; return its console.

        Raises ToolError (TIMEOUT) when it has not within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while self.lab.status()[self.name]["state"] != "gone":
            if time.monotonic() >= deadline:
                raise ToolError(
                    f"the guest did not power off within {seconds:g} s", self._hint(), ExitCode.TIMEOUT
                )
            time.sleep(1)
        return self.log()

    def close(self) -> None:
        """Keep the console and take the guest down."""
        if (self.lab.guests / self.name).exists():
            self.log()
            self.lab.must("down", self.name, timeout=120)


def in_turns(kernels: Sequence[str], boots: int, say: Say) -> Iterator[str]:
    """Yield the kernels once for each boot, every other time backwards: so drift meets all of them alike."""
    for boot in range(boots):
        for kernel in kernels if boot % 2 == 0 else reversed(kernels):
            say(f"boot {boot + 1} of {boots}: {kernel}")
            yield kernel


def fresh(folder: Path) -> Path:
    """Return an empty folder of that name; what was there is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
