"""Compiling single files of a kernel, at any patch of a series, in an object directory of the tests' own."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lpar_lab import lock, scratch
from lpar_lab.arch import PPC64LE, X86_64, Arch
from lpar_lab.kernel import build, series, source, tree
from lpar_lab.kernel.series import Patch
from lpar_lab.paths import Paths
from lpar_lab.ui import Progress

FINDING = re.compile(r"^(?P<file>\S+?):\d+:(?:\d+:)? (?P<text>(?:warning|error): .*)$", re.MULTILINE)
# Sources only an x86 kernel has use for; everything outside arch/ but these is compiled for ppc64le.
X86_ONLY = ("arch/x86/", "drivers/char/hpet.c", "drivers/clocksource/acpi_pm.c")
SPARSE = Path(__file__).with_name("sparse-report.sh")
CHECKPATCH = (
    *("perl", "scripts/checkpatch.pl", "--strict", "--no-tree", "--no-summary", "--quiet"),
    # The submitter adds the sign-off. The source comes as an archive without history, so no commit
    # that a message refers to can be looked up.
    *("--ignore", "MISSING_SIGN_OFF,UNKNOWN_COMMIT_ID"),
)


@dataclass(frozen=True)
class Finding:
    """A compiler's or sparse's complaint. Without its line number, which any patch above it moves."""

    file: str
    text: str


def arch_of(file: str) -> Arch:
    """The architecture that a source file is compiled for here."""
    return X86_64 if file.startswith(X86_ONLY) else PPC64LE


def units_of(tree: Path, file: str) -> list[str]:
    """The files that are compiled for `file`: itself, or those that include it, as kernel/sched does.

    Headers have none: what they break shows in the sources a patch changes with them, or in vmlinux.
    """
    if not file.endswith((".c", ".S")):
        return []
    path = tree / file
    line = re.compile(rf'^#\s*include "{re.escape(path.name)}"', re.MULTILINE)
    including = [other for other in path.parent.glob("*.c") if line.search(other.read_text())]
    return [str(other.relative_to(tree)) for other in including] or [file]


def objects_of(tree: Path, files: Sequence[str]) -> dict[Arch, set[str]]:
    """The objects that source files end up in, by architecture."""
    objects: dict[Arch, set[str]] = {}
    for unit in (unit for file in files for unit in units_of(tree, file)):
        objects.setdefault(arch_of(unit), set()).add(str(Path(unit).with_suffix(".o")))
    return objects


def run(command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a tool; return its exit code and its merged output."""
    done = subprocess.run(
        command, cwd=cwd, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


@dataclass
class Workshop:
    """The lab's source tree of one base, and objects of our own."""

    source: source.Source
    patches: list[Patch]
    paths: Paths
    folder: Path

    @property
    def tree(self) -> Path:
        return self.source.tree

    @contextmanager
    def at(self, count: int) -> Iterator[None]:
        """Have the tree at the first `count` patches, by the lab's own code and under its lock."""
        with lock.held(self.source.lock, Progress(), f"the source tree of base {self.source.base}"):
            tree.prepare(self.tree, self.patches[:count], self.source.base)
            yield

    def subjects(self) -> list[str]:
        """The commits above the base, oldest first."""
        _, log = run(["git", "log", "--reverse", "--format=%s", f"{tree.BASE}..HEAD"], self.tree)
        return log.splitlines()

    def checkpatch(self, patch: Path) -> str:
        """Run the tree's own checkpatch.pl; empty when it has nothing to say."""
        code, output = run([*CHECKPATCH, patch], self.tree)
        return output.strip() or (f"exit code {code}" if code else "")

    def compile(self, files: Sequence[str]) -> set[Finding]:
        """Compile source files as the tree has them, with W=1 and sparse; return what is said about `files`.

        Fails the test, with the compiler's output, when one of them does not compile.
        """
        findings = set()
        for arch, objects in objects_of(self.tree, files).items():
            output = self._make(arch, ["W=1", "C=2", f"CHECK={SPARSE}", *sorted(objects)])
            for match in FINDING.finditer(output):
                name = os.path.relpath(match["file"], self.tree)
                if name in files:
                    findings.add(Finding(name, match["text"]))
        return findings

    def _make(self, arch: Arch, arguments: Sequence[str]) -> str:
        command = [
            *("make", f"-j{os.cpu_count()}", f"O={self._configured(arch)}"),
            *(f"ARCH={arch.kbuild}", f"CROSS_COMPILE={arch.cross_prefix}"),
            *(f"CC=ccache {arch.cross_prefix}gcc", "HOSTCC=ccache gcc"),
            *arguments,
        ]
        # No CCACHE_BASEDIR: it would make the paths in warnings relative.
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "CCACHE_DIR": str(self.paths.ccache),
            "CCACHE_NOHASHDIR": "1",
        }
        code, output = run(command, self.tree, environment)
        failed = [line for line in output.splitlines() if "***" in line or " error: " in line]
        assert code == 0, "\n".join([f"{' '.join(arguments)} for {arch.name} failed", *failed])
        return output

    def _configured(self, arch: Arch) -> Path:
        """Make the configuration of a lab kernel, once an architecture; return the object directory."""
        job = build.plan(arch, self.source, series.STOCK, [], self.paths)
        kbuild = build.Kbuild(job, replace(self.paths, cache=self.folder), os.cpu_count() or 1)
        if not kbuild.config.exists():
            kbuild.configure()
        return kbuild.objects


@contextmanager
def opened(base: str, paths: Paths) -> Iterator[Workshop]:
    """Give a workshop for a base; its objects are gone afterwards."""
    cached = source.obtain(base, paths, Progress())
    patches = series.load(paths.patches, base, series.PATCHED)
    with scratch.folder(paths.scratch, "test") as folder:
        yield Workshop(cached, patches, paths, folder)
