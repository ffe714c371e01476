"""Compiling single files of a kernel, at any patch of a series, in object directories of one's own.

A file is compiled in the configuration of a lab kernel, with the drivers added that the patches touch, for
the first architecture that has the file.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from hotplug_common import lock, process, scratch
from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_common.kernel import config, series, source, tree
from hotplug_common.kernel.series import Patch
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify.patches import compiling, findings
from kernel_qualify.patches.findings import Finding
from kernel_qualify.patches.patchfiles import touched_by

CHECKPATCH = (
    *("perl", "scripts/checkpatch.pl", "--strict", "--no-tree", "--no-summary", "--quiet"),
    # The submitter adds the sign-off. The source comes as an archive without history, so no commit
    # that a message refers to can be looked up. For new files it asks whether somebody maintains them: see
    # unmaintained().
    *("--ignore", "MISSING_SIGN_OFF,UNKNOWN_COMMIT_ID,FILE_PATH_CHANGES"),
)
ARCHES = (PPC64LE, X86_64)
"""The first one that has a file is the one it is compiled for."""
TOOLS = ("sparse", *(f"{arch.cross_prefix}gcc" for arch in ARCHES))
"""What tells the findings."""
CONFIGS = Path(__file__).with_name("configs")
TOUCHED = "touched"
"""The fragments of what the patches touch and no lab kernel has: for all architectures, and for each."""


@dataclass(frozen=True)
class Outcome:
    """What came of compiling files: complaints about them, and what did not compile, in words."""

    findings: frozenset[Finding] = frozenset()
    problems: tuple[str, ...] = ()


def covers(pattern: str, file: str) -> bool:
    """Whether a pattern of MAINTAINERS, as its head explains them, names a file; "*" does not."""
    if pattern in ("*", "*/"):
        return False
    if pattern.endswith("/"):
        return fnmatch.fnmatchcase(file, f"{pattern}*")
    return fnmatch.fnmatchcase(file, pattern) and file.count("/") == pattern.count("/")


def fragments_of(patches: Path, arch: Arch, line: str) -> list[str]:
    """Return the texts of the fragments that compile every patch, a later one going before an earlier one."""
    own = [CONFIGS / f"{name}.config" for name in (TOUCHED, f"{TOUCHED}-{arch.name}")]
    return [part.content for part in config.load(patches, arch, line)] + [path.read_text() for path in own]


def merged(texts: Sequence[str]) -> str:
    """Merge fragments into one; the last mention of a symbol stays."""
    values = config.parse("\n".join(texts))
    return "".join(
        f"# {symbol} is not set\n" if value == "n" else f"{symbol}={value}\n"
        for symbol, value in values.items()
    )


def run(command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a tool; return its exit code and its merged output."""
    done = process.run(command, cwd=cwd, env=env)
    return done.returncode, done.output


@dataclass
class Workshop:
    """The lab's source tree of one line, and objects of our own."""

    source: source.Source
    patches: list[Patch]
    paths: Paths
    folder: Path
    say: Say
    stopped: Event = field(default_factory=Event)
    """Set it to end a compilation that another thread is at; that raises ToolError there."""
    kconfigs: tuple[str, ...] = ()
    """The Kconfig files that patches touch: a configuration holds for as long as they are the same."""
    configured: dict[Arch, str] = field(default_factory=dict)
    """Architectures that have an object directory, with the digest of what its configuration was made of."""

    @property
    def tree(self) -> Path:
        """The tree, at the patch that at() was asked for."""
        return self.source.tree

    def of(self, variant: str) -> Workshop:
        """Return the same workshop with the patches of another variant."""
        return replace(self, patches=series.load(self.paths.patches, self.source.line, variant))

    @contextmanager
    def at(self, count: int) -> Iterator[None]:
        """Have the tree at the first `count` patches, by the lab's own code and under its lock."""
        with lock.held(self.source.lock, self.say, f"the source tree of line {self.source.line}"):
            tree.prepare(self.tree, self.patches[:count], self.source.line)
            yield

    def subjects(self) -> list[str]:
        """Return the subjects of the commits above the stock kernel, oldest first."""
        _, log = run(["git", "log", "--reverse", "--format=%s", f"{tree.BASE}..HEAD"], self.tree)
        return log.splitlines()

    def checkpatch(self, patch: Path) -> list[str]:
        """Return the lines that the tree's own checkpatch.pl reports of a patch; kept in the lab's cache."""
        parts = [path.read_text() for path in sorted((self.tree / "scripts").glob("*checkpatch*"))]
        recipes = [*CHECKPATCH, *parts, (self.tree / "scripts/spelling.txt").read_text()]
        digest = hashlib.sha256(patch.read_bytes()).hexdigest()
        file = self._kept(findings.key(digest, [], ["perl"], recipes))
        found = findings.kept(file)
        if found is None:
            code, output = run([*CHECKPATCH, patch], self.tree)
            said = [line for line in output.splitlines() if line.strip()]
            if code and not said:
                return [f"exit code {code}"]
            found = frozenset(Finding(f"{number:04}", line) for number, line in enumerate(said))
            findings.keep(file, found)
        return [one.text for one in sorted(found)]

    def unmaintained(self, files: Iterable[str]) -> list[str]:
        """Return which of these files no section of MAINTAINERS names; the one of all the rest is none."""
        lines = (self.tree / "MAINTAINERS").read_text().splitlines()
        patterns = [line.partition("\t")[2].strip() for line in lines if line.startswith("F:\t")]
        return [file for file in files if not any(covers(pattern, file) for pattern in patterns)]

    def outcome(self, count: int, files: Sequence[str]) -> Outcome:
        """Return what compile() finds in `files` with the first `count` patches.

        Findings are kept in the lab's cache, and then neither compiled for again nor is the tree moved.
        """
        file = self._kept(self._key(count, files))
        found = findings.kept(file)
        if found is not None:
            return Outcome(found)
        with self.at(count):
            outcome = self.compile(files)
        if not outcome.problems:
            findings.keep(file, outcome.findings)
        return outcome

    def _kept(self, key: str) -> Path:
        return self.paths.cache / "findings" / f"{key}.json"

    def _key(self, count: int, files: Sequence[str]) -> str:
        state = findings.state(self.source.ref.sha256, self.patches[:count])
        configs = [
            text for arch in ARCHES for text in fragments_of(self.paths.patches, arch, self.source.line)
        ]
        recipes = [Path(compiling.__file__).read_text(), compiling.SPARSE.read_text(), *configs]
        return findings.key(state, files, TOOLS, recipes)

    def compile(self, files: Sequence[str]) -> Outcome:
        """Compile source files as the tree has them, with W=1 and sparse; return what is reported of them.

        Each is compiled for the first architecture that has it. Raises ToolError (INPUT) when there is no
        configuration to compile in.
        """
        found: set[Finding] = set()
        problems: list[str] = []
        left = compiling.objects_of(self.tree, files)
        for arch in ARCHES:
            mine = frozenset(name for name in left if compiling.is_for(arch.kbuild, name))
            if not mine:
                continue
            compiled, output = self._compile(arch, mine)
            if compiled.failed:
                names = ", ".join(sorted(compiled.failed))
                problems += [f"compiling {names} failed ({arch.name})", *_errors(output)]
            gone = compiled.listed | compiled.failed
            looked_at = {file for name in gone for file in left.pop(name)}
            found |= {finding for finding in compiled.findings if finding.file in looked_at}
        if left:
            problems.append(f"no configuration compiles {sorted(left)}")
        return Outcome(frozenset(found), tuple(problems))

    def _compile(self, arch: Arch, objects: frozenset[str]) -> tuple[compiling.Compiled, str]:
        """Compile objects for an architecture, from scratch; return what make's output tells, and that."""
        folder = self._configure(arch)
        for name in objects:
            (folder / name).unlink(missing_ok=True)
        _, output = self._make(arch, compiling.arguments(arch.kbuild, sorted(objects)))
        return compiling.read(output, objects, self.tree, folder), output

    def compiled(self, arch: Arch, name: str, *arguments: str) -> Path:
        """Compile an object as the tree has it; ToolError (INPUT) when it does not compile."""
        folder = self._configure(arch)
        code, output = self._make(arch, [*arguments, name])
        if code:
            raise _failure(f"compiling {name} ({arch.name})", output)
        return folder / name

    def make(
        self, kbuild: str, prefix: str, folder: Path, arguments: Sequence[str], launcher: str = "ccache "
    ) -> tuple[int, str]:
        """Run make for an architecture and a compiler, in an object directory; its exit code and output."""
        command = [
            *("make", f"-j{os.cpu_count()}", f"O={folder}"),
            *(f"ARCH={kbuild}", f"CROSS_COMPILE={prefix}"),
            *(f"CC={launcher}{prefix}gcc", "HOSTCC=ccache gcc"),
            *arguments,
        ]
        # No CCACHE_BASEDIR: it would make the paths in warnings relative.
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "CCACHE_DIR": str(self.paths.ccache),
            "CCACHE_NOHASHDIR": "1",
        }
        done = process.run(command, cwd=self.tree, env=environment, tick=self._go_on)
        return done.returncode, done.output

    def _go_on(self) -> None:
        if self.stopped.is_set():
            raise ToolError("stopped while it compiled", code=ExitCode.INTERRUPTED)

    def _make(self, arch: Arch, arguments: Sequence[str]) -> tuple[int, str]:
        self._go_on()
        # What is reported is kept; ccache would only preprocess each file once more.
        return self.make(arch.kbuild, arch.cross_prefix, self._objects(arch), arguments, launcher="")

    def _objects(self, arch: Arch) -> Path:
        return self.folder / arch.name

    def _configure(self, arch: Arch) -> Path:
        """Make the configuration, once for each state of the Kconfig files; return the object directory.

        Symbols that a fragment asks for and the kernel does not have are no error: a file that nothing
        compiles is one.
        """
        folder = self._objects(arch)
        now = self._kconfig()
        if self.configured.get(arch) == now:
            return folder
        folder.mkdir(exist_ok=True)
        asked = folder / "asked.config"
        asked.write_text(merged(fragments_of(self.paths.patches, arch, self.source.line)))
        code, output = self._make(arch, [f"KCONFIG_ALLCONFIG={asked}", "allnoconfig"])
        if code:
            raise _failure(f"configuring ({arch.name})", output)
        self.configured[arch] = now
        return folder

    def _kconfig(self) -> str:
        """Return a digest of the Kconfig files that patches touch, as the tree has them."""
        digest = hashlib.sha256()
        for path in (self.tree / name for name in self.kconfigs):
            digest.update(path.read_bytes() if path.exists() else b"")
        return digest.hexdigest()


def _errors(output: str) -> list[str]:
    return [line for line in output.splitlines() if "***" in line or "rror: " in line]


def _failure(doing: str, output: str) -> ToolError:
    why = (_errors(output) or [process.last_line(output)])[0]
    return ToolError(f"{doing} failed: {why}", code=ExitCode.INPUT)


def _kconfigs(patches: Sequence[Patch]) -> tuple[str, ...]:
    touched = {file for patch in patches for file in touched_by(patch.content.decode())}
    return tuple(sorted(file for file in touched if Path(file).name.startswith("Kconfig")))


@contextmanager
def opened(cached: source.Source, paths: Paths, say: Say) -> Iterator[Workshop]:
    """Give a workshop for a line's source; its objects are gone afterwards."""
    patches = series.load(paths.patches, cached.line, series.PATCHED)
    with scratch.folder(paths.scratch, "qualify") as folder:
        yield Workshop(cached, patches, paths, folder, say, kconfigs=_kconfigs(patches))
