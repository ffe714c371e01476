"""Proofs: each finds problems, or passes; what has passed with the same inputs need not be proven again."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import process, scratch
from hotplug_common.kernel import lines, series
from hotplug_common.paths import Paths
from hotplug_common.ui import Say, out
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify import lab
from kernel_qualify.lab import Lab
from kernel_qualify.proving import Order, Proving, fresh

PASSED = "passed"
"""The folder of results with a file for each proof that passed."""
PROGRAM = Path(__file__).parent


class Ground:
    """Where a proof works: its folder of results, its guests, and how it reports."""

    def __init__(self, paths: Paths, results: Path, say: Say) -> None:
        self.paths = paths
        self.results = fresh(results)
        self.say = say
        self._stack = ExitStack()
        self._lab: Lab | None = None

    @property
    def folder(self) -> Path:
        """A folder that is gone afterwards."""
        return self.lab.folder

    @property
    def lab(self) -> Lab:
        """A lab of this proof's own."""
        if self._lab is None:
            folder = self._stack.enter_context(scratch.folder(self.paths.scratch, "qualify"))
            self._lab = self._stack.enter_context(lab.opened(folder, self.paths.project))
        return self._lab

    def guest(self, order: Order) -> Proving:
        """Return a guest to boot; it is taken down afterwards."""
        guest = Proving(self.lab, order, self.results, self.say)
        self._stack.callback(guest.close)
        return guest

    def close(self) -> None:
        """Take down what is left, and remove the folder."""
        self._stack.close()


@dataclass(frozen=True)
class Proof:
    """One thing to prove. `find` returns the problems, none when it is proven."""

    name: str
    """Its folder of results: the subcommand, and what is beside it, such as rcutorture/smt."""
    line: str
    facts: Mapping[str, object]
    """The options that decide how it ends."""
    find: Callable[[Ground], list[str]]
    limit_s: float
    """The longest it may take."""


def digest(proof: Proof, paths: Paths) -> str:
    """Hash what a proof's outcome depends on: patches, fragments, this program and the options."""
    content = hashlib.sha256()
    patches = paths.patches
    files = [*(patches / "configs").iterdir(), *(patches / lines.FOLDER).rglob("*.toml")]
    if proof.line in lines.branches(patches):
        files += patches.glob(f"*/{lines.load(patches, proof.line).of}/*")
    files += [*patches.glob(f"*/{proof.line}/*"), *(patches / series.EXPERIMENTS).glob("*/*.patch")]
    files += [path for path in PROGRAM.rglob("*") if path.suffix in (".py", ".sh", ".c", ".config", ".txt")]
    files += [value for value in proof.facts.values() if isinstance(value, Path) and value.is_file()]
    for file in sorted(files):
        content.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    content.update(repr((proof.name, [(key, str(value)) for key, value in proof.facts.items()])).encode())
    return content.hexdigest()


@dataclass(frozen=True)
class Passed:
    """That a proof passed: with which inputs, when (UTC), and how long it took (seconds)."""

    inputs: str
    when: str
    seconds: int


def stamp(proof: Proof, results: Path) -> Path:
    """Return the file that notes that a proof passed."""
    return results / PASSED / proof.name.replace("/", "-")


def note(proof: Proof, results: Path, passed: Passed) -> None:
    """Note that a proof passed."""
    file = stamp(proof, results)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{passed.inputs} {passed.when} {passed.seconds}\n")


def noted(proof: Proof, results: Path) -> Passed | None:
    """Return what note() wrote; None when the proof has not passed."""
    try:
        inputs, when, seconds = stamp(proof, results).read_text().split()
        return Passed(inputs, when, int(seconds))
    except (OSError, ValueError):
        return None


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise ToolError (TIMEOUT) when the block takes longer; for the main thread."""
    try:
        with process.no_longer_than(seconds):
            yield
    except process.Expired:
        raise ToolError(
            f"took longer than {seconds / 3600:g} h", "read the logs of its results", ExitCode.TIMEOUT
        ) from None


def prove(proofs: Sequence[Proof], arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    """Prove one after the other, and go on after a failure; print all problems, one a line.

    Raises ToolError: OPERATION for problems, the fault itself where nothing else failed.
    """
    failures: list[tuple[str, ToolError]] = []
    for number, proof in enumerate(proofs, start=1):
        begin = time.monotonic()
        inputs = digest(proof, paths)
        before = noted(proof, arguments.output_dir) if arguments.resume else None
        if before and before.inputs == inputs:
            out(f"{proof.name}: passed at {before.when}, in {before.seconds} s")
            continue
        say(f"{proof.name}: {number} of {len(proofs)}")
        stamp(proof, arguments.output_dir).unlink(missing_ok=True)
        try:
            _judge(proof, arguments.output_dir, paths, say)
        except ToolError as error:
            failures.append((proof.name, error))
            out(f"{proof.name}: {error}")
            continue
        seconds = round(time.monotonic() - begin)
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        note(proof, arguments.output_dir, Passed(inputs, when, seconds))
        out(f"{proof.name}: passed in {seconds} s")
    return _conclude(failures, len(proofs))


def _judge(proof: Proof, results: Path, paths: Paths, say: Say) -> None:
    """Find a proof's problems and print them; ToolError when there are some, or when it cannot be told."""
    with limited(proof.limit_s):
        ground = Ground(paths, results / proof.name, say)
        try:
            problems = proof.find(ground)
        except (LookupError, ValueError, subprocess.SubprocessError) as error:
            raise ToolError(
                f"cannot judge what came out: {error!r}", f"see {ground.results}", ExitCode.OPERATION
            ) from error
        finally:
            ground.close()
    require_none(problems, f"see {ground.results}")


def require_none(problems: Iterable[str], hint: str) -> None:
    """Print all problems, one a line; raise ToolError (OPERATION) when there is one."""
    every = list(problems)
    for problem in every:
        out(f"problem: {problem}")
    if every:
        raise ToolError(f"{len(every)} problem(s), the first: {every[0]}", hint, ExitCode.OPERATION)


def _conclude(failures: Sequence[tuple[str, ToolError]], total: int) -> int:
    if not failures:
        return ExitCode.OK
    if len(failures) == 1:
        ((name, error),) = failures
        raise ToolError(f"{name}: {error.message}", error.hint, error.code)
    codes = [error.code for _, error in failures]
    names = ", ".join(name for name, _ in failures)
    code = ExitCode.OPERATION if ExitCode.OPERATION in codes else codes[0]
    raise ToolError(f"{len(failures)} of {total} proofs failed: {names}", "see the lines above", code)
