"""Compiling single files of a kernel, at any patch of a series, in object directories of the tests' own.

A file is compiled in the configuration of a lab kernel if that has it, else in one that has all drivers.
"""

import fnmatch
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotplug_common import lock, scratch
from hotplug_common.arch import PPC64LE, X86_64, Arch
from hotplug_common.kernel import build, config, series, source, tree
from hotplug_common.kernel.series import Patch
from hotplug_common.paths import Paths
from hotplug_common.ui import Progress
from tests.kernel import findings
from tests.kernel.findings import Finding
from tests.kernel.patchfiles import touched_by

FINDING = re.compile(r"^(?P<file>\S+?):\d+:(?:\d+:)? (?P<text>(?:warning|error): .*)$", re.MULTILINE)
# kbuild compiles any file it is asked for by name, with nearly the flags it would have, whatever the
# configuration says. So it has to say as well whether the file is one of those it would compile by itself:
# in the place where it marks modules when it says what it does.
MARK = (
    "quiet_modtag=$(if $(filter $@,$(real-obj-y) $(real-obj-m) $(lib-y) $(extra-y) $(always-y)),listed,other)"
)
COMPILES = re.compile(r"^  (?:CC|AS) (?P<mark>listed|other)  (?P<object>\S+)$", re.MULTILINE)
NO_RULE = re.compile(r"No rule to make target '(?:\./)?(?P<object>\S+)'")
SPARSE = Path(__file__).with_name("sparse-report.sh")
CHECKPATCH = (
    *("perl", "scripts/checkpatch.pl", "--strict", "--no-tree", "--no-summary", "--quiet"),
    # The submitter adds the sign-off. The source comes as an archive without history, so no commit
    # that a message refers to can be looked up. For new files it asks whether somebody maintains them: see
    # unmaintained().
    *("--ignore", "MISSING_SIGN_OFF,UNKNOWN_COMMIT_ID,FILE_PATH_CHANGES"),
)


def covers(pattern: str, file: str) -> bool:
    """Whether a pattern of MAINTAINERS, as its head explains them, names a file; "*" does not."""
    if pattern in ("*", "*/"):
        return False
    if pattern.endswith("/"):
        return fnmatch.fnmatchcase(file, f"{pattern}*")
    return fnmatch.fnmatchcase(file, pattern) and file.count("/") == pattern.count("/")


@dataclass(frozen=True)
class Configuration:
    """What a file is compiled for, and with which configuration: a lab kernel's, or everything there is."""

    arch: Arch
    everything: bool = False

    @property
    def name(self) -> str:
        return f"{'allmodconfig' if self.everything else 'lab'} for {self.arch.name}"


# The first one that has a file is the one it is compiled in.
CONFIGURATIONS = (
    Configuration(PPC64LE),
    Configuration(X86_64),
    Configuration(PPC64LE, everything=True),
    Configuration(X86_64, everything=True),
)
TOOLS = ("sparse", *(f"{arch.cross_prefix}gcc" for arch in (PPC64LE, X86_64)))
"""What tells the findings."""
# Stock files have warnings at W=1, too.
NO_WERROR = """\
# CONFIG_WERROR is not set
# CONFIG_DRM_WERROR is not set
# CONFIG_KVM_WERROR is not set
CONFIG_PPC_DISABLE_WERROR=y
"""
# What allmodconfig is not to choose: tools that are on some machines only,
# and copies of all headers, which take longer to install than the files here to compile.
NOT_EVERYTHING = """\
CONFIG_CPU_LITTLE_ENDIAN=y
# CONFIG_RUST is not set
# CONFIG_GCC_PLUGINS is not set
# CONFIG_HEADERS_INSTALL is not set
"""


def is_for(arch: str, name: str) -> bool:
    """Whether a file or an object is this architecture's (as kbuild calls it), or everybody's."""
    return not name.startswith("arch/") or name.startswith(f"arch/{arch}/")


def target_of(arch: str, name: str) -> str:
    """What kbuild calls an object: what is every KVM's, it reaches through the architecture's."""
    return f"arch/{arch}/kvm/../../../{name}" if name.startswith("virt/kvm/") else name


def units_of(tree: Path, file: str) -> list[str]:
    """The files that are compiled for `file`: itself, or those that include it, as kernel/sched does.

    They lie in its folder, or in the one above.

    Headers have none: what they break shows in the sources a patch changes with them, or in vmlinux.
    """
    if not file.endswith((".c", ".S")):
        return []
    path = tree / file
    including = []
    for folder in (path.parent, path.parent.parent):
        name = re.escape(str(path.relative_to(folder)))
        line = re.compile(rf'^#\s*include "{name}"', re.MULTILINE)
        including += [other for other in folder.glob("*.c") if line.search(other.read_text())]
    return [str(other.relative_to(tree)) for other in including] or [file]


def objects_of(tree: Path, files: Sequence[str]) -> dict[str, set[str]]:
    """The objects that source files end up in, and the files of each."""
    objects: dict[str, set[str]] = {}
    for file in files:
        for unit in units_of(tree, file):
            objects.setdefault(str(Path(unit).with_suffix(".o")), set()).add(file)
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
    configured: dict[Configuration, Path] = field(default_factory=dict)
    _stock: set[Finding] | None = None

    @property
    def tree(self) -> Path:
        return self.source.tree

    def of(self, variant: str) -> "Workshop":
        """The same workshop, with the patches of another variant."""
        return replace(self, patches=series.load(self.paths.patches, self.source.base, variant), _stock=None)

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

    def unmaintained(self, files: Iterable[str]) -> list[str]:
        """Which of these files no section of MAINTAINERS names; the one of all the rest is none."""
        lines = (self.tree / "MAINTAINERS").read_text().splitlines()
        patterns = [line.partition("\t")[2].strip() for line in lines if line.startswith("F:\t")]
        return [file for file in files if not any(covers(pattern, file) for pattern in patterns)]

    def stock(self) -> set[Finding]:
        """What is said about the stock files that the patches touch; compiled once, for all of them.

        Going back to the stock tree for each patch would take longer than compiling what it touches.
        """
        if self._stock is None:
            touched = {file for patch in self.patches for file in touched_by(patch.content.decode())}
            with self.at(0):
                self._stock = self.compile([file for file in sorted(touched) if (self.tree / file).exists()])
        return self._stock

    def compile(self, files: Sequence[str]) -> set[Finding]:
        """Compile source files as the tree has them, with W=1 and sparse; return what is said about `files`.

        A committed tree's findings are kept in the lab's cache and not asked for again. Fails the test, with
        the compiler's output, when one of them does not compile.
        """
        state = findings.state_of(self.tree)
        if state is None:
            return self._compile_all(files)
        recipes = [
            Path(__file__),
            SPARSE,
            Path(build.__file__),
            Path(config.__file__),
            *sorted(self.paths.patches.glob("configs/*")),
        ]
        key = findings.key(state, files, TOOLS, recipes)
        file = self.paths.cache / "findings" / f"{key}.json"
        found = findings.kept(file)
        if found is None:
            found = self._compile_all(files)
            findings.keep(file, found)
        return found

    def _compile_all(self, files: Sequence[str]) -> set[Finding]:
        """Compile each file in the first configuration that has it."""
        found = set()
        left = objects_of(self.tree, files)
        for configuration in CONFIGURATIONS:
            mine = {name for name in left if is_for(configuration.arch.kbuild, name)}
            if not mine:
                continue
            output, listed = self._compile(configuration, mine)
            looked_at = {file for name in listed for file in left.pop(name)}
            for match in FINDING.finditer(output):
                name = os.path.relpath(match["file"], self.tree)
                if name in looked_at:
                    found.add(Finding(name, match["text"]))
        assert not left, f"no configuration compiles {sorted(left)}"
        return found

    def _compile(self, configuration: Configuration, objects: set[str]) -> tuple[str, set[str]]:
        """Compile objects, from scratch; return what make says, and which of them the configuration has.

        Fails the test when one that it has does not compile; what becomes of others does not matter.
        """
        folder = self._configured(configuration)
        for name in objects:
            (folder / name).unlink(missing_ok=True)
        targets = sorted(target_of(configuration.arch.kbuild, name) for name in objects)
        arguments = ["-k", "W=1", "C=2", f"CHECK={SPARSE}", MARK, *targets]
        _, output = self._make(configuration.arch, folder, arguments)
        marks = {os.path.normpath(match["object"]): match["mark"] for match in COMPILES.finditer(output)}
        listed = {name for name in objects if marks.get(name) == "listed"}
        without_rule = {os.path.normpath(match["object"]) for match in NO_RULE.finditer(output)}
        failed = {name for name in listed if not (folder / name).exists()}
        # Neither compiled nor refused: make did not come that far.
        failed |= objects - marks.keys() - without_rule
        self._must(not failed, configuration, f"compiling {', '.join(sorted(failed))}", output)
        return output, listed

    def compiled(self, arch: Arch, name: str, *arguments: str) -> Path:
        """Compile an object as the tree has it, configured as the lab does; fails the test if it does not."""
        configuration = Configuration(arch)
        folder = self._configured(configuration)
        code, output = self._make(arch, folder, [*arguments, name])
        self._must(code == 0, configuration, f"compiling {name}", output)
        return folder / name

    def make(self, kbuild: str, prefix: str, folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
        """Run make for an architecture and a compiler, in an object directory; its exit code and output."""
        command = [
            *("make", f"-j{os.cpu_count()}", f"O={folder}"),
            *(f"ARCH={kbuild}", f"CROSS_COMPILE={prefix}"),
            *(f"CC=ccache {prefix}gcc", "HOSTCC=ccache gcc"),
            *arguments,
        ]
        # No CCACHE_BASEDIR: it would make the paths in warnings relative.
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
            "CCACHE_DIR": str(self.paths.ccache),
            "CCACHE_NOHASHDIR": "1",
        }
        return run(command, self.tree, environment)

    def _make(self, arch: Arch, folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
        return self.make(arch.kbuild, arch.cross_prefix, folder, arguments)

    def _must(self, well: bool, configuration: Configuration, doing: str, output: str) -> None:
        """Fail the test with make's output unless all is well."""
        said = [line for line in output.splitlines() if "***" in line or "rror: " in line]
        assert well, "\n".join([f"{doing} failed ({configuration.name})", *said])

    def _configured(self, configuration: Configuration) -> Path:
        """Make a configuration, once; return its object directory."""
        if configuration not in self.configured:
            self.configured[configuration] = (
                self._everything(configuration) if configuration.everything else self._lab(configuration)
            )
        return self.configured[configuration]

    def _everything(self, configuration: Configuration) -> Path:
        folder = self.folder / f"allmodconfig-{configuration.arch.name}"
        folder.mkdir()
        fragment = folder / "fragment"
        fragment.write_text(NOT_EVERYTHING + NO_WERROR)
        arguments = [f"KCONFIG_ALLCONFIG={fragment}", "allmodconfig"]
        code, output = self._make(configuration.arch, folder, arguments)
        self._must(code == 0, configuration, "configuring", output)
        return folder

    def _lab(self, configuration: Configuration) -> Path:
        job = build.plan(configuration.arch, self.source, series.STOCK, [], self.paths)
        kbuild = build.Kbuild(job, replace(self.paths, cache=self.folder), os.cpu_count() or 1)
        kbuild.configure()
        with kbuild.config.open("a") as stream:
            stream.write(NO_WERROR)
        code, output = self._make(configuration.arch, kbuild.objects, ["olddefconfig"])
        self._must(code == 0, configuration, "configuring", output)
        return kbuild.objects


@contextmanager
def opened(base: str, paths: Paths) -> Iterator[Workshop]:
    """Give a workshop for a base; its objects are gone afterwards."""
    cached = source.obtain(base, paths, Progress())
    patches = series.load(paths.patches, base, series.PATCHED)
    with scratch.folder(paths.scratch, "test") as folder:
        yield Workshop(cached, patches, paths, folder)
