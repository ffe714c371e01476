"""Compiling the files that the series touches, in configurations that take pieces of it away."""

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import needs, process
from hotplug_common.kernel.config import parse
from hotplug_common.needs import Need
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify.patches.compiling import COMPILES, FINDING, MARK, is_for, target_of, units_of
from kernel_qualify.patches.findings import Finding
from kernel_qualify.patches.workshop import Workshop, run

STEP = re.compile(r"^  [A-Z]\w* .*$", re.MULTILINE)
"""Where kbuild tells what it does next. Its reports follow, with make's --output-sync."""
FOLDED = re.compile(r"0x[0-9a-f]+|\bline \d+")


@dataclass(frozen=True)
class Configuration:
    """A configuration: where it starts, what is changed, and what it must have and lack in the end."""

    name: str
    kbuild: str
    prefix: str
    package: str
    start: str
    changes: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def problems(self, config: str) -> list[str]:
        """Return what a .config has or lacks otherwise than asked for."""
        values = parse(config)
        found = [f"{symbol} is off" for symbol in self.has if values.get(f"CONFIG_{symbol}", "n") == "n"]
        return found + [
            f"{symbol} is on" for symbol in self.lacks if values.get(f"CONFIG_{symbol}", "n") != "n"
        ]


POWER = ("powerpc", "powerpc64le-linux-gnu-", "gcc-powerpc64le-linux-gnu")
PC = ("x86", "", "gcc")
AMIGA = ("m68k", "m68k-linux-gnu-", "gcc-m68k-linux-gnu")
ARM = ("arm64", "aarch64-linux-gnu-", "gcc-aarch64-linux-gnu")
# pseries and powernv select SMP and HOTPLUG_CPU: without these, neither platform.
BARE_POWER = (
    *("CONFIG_PPC64=y", "CONFIG_PPC_BOOK3S_64=y", "CONFIG_CPU_LITTLE_ENDIAN=y", "CONFIG_EXPERT=y"),
    *("CONFIG_CPU_IDLE=y", "CONFIG_BLOCK=y", "CONFIG_NET=y", "CONFIG_PERF_EVENTS=y", "CONFIG_CGROUPS=y"),
    *("CONFIG_PCI=y", "CONFIG_NETDEVICES=y", "CONFIG_KEXEC=y", "CONFIG_PROC_FS=y", "CONFIG_SYSFS=y"),
)
NO_SLEEP = ("# CONFIG_SUSPEND is not set", "# CONFIG_HIBERNATION is not set")

# Everything that can be compiled: drivers that no default configuration has. allmodconfig is not to choose
# tools that are on some machines only, and copies of all headers, which take longer to install than the
# files here to compile.
EVERYTHING = (
    "CONFIG_CPU_LITTLE_ENDIAN=y",
    "# CONFIG_RUST is not set",
    "# CONFIG_GCC_PLUGINS is not set",
    "# CONFIG_HEADERS_INSTALL is not set",
)
# Stock files have warnings at W=1, too.
NO_WERROR = """\
# CONFIG_WERROR is not set
# CONFIG_DRM_WERROR is not set
# CONFIG_KVM_WERROR is not set
CONFIG_PPC_DISABLE_WERROR=y
"""

CONFIGURATIONS = (
    Configuration("ppc64le", *POWER, "ppc64le_defconfig", (), ("SMP", "HOTPLUG_CPU", "HOTPLUG_SMT", "NUMA")),
    Configuration("x86-64", *PC, "x86_64_defconfig", (), ("SMP", "HOTPLUG_CPU", "HOTPLUG_SMT", "NUMA")),
    Configuration("arm64", *ARM, "defconfig", (), ("SMP", "HOTPLUG_CPU", "NUMA")),
    Configuration("ppc64le-all", *POWER, "allmodconfig", EVERYTHING, ("SMP", "HOTPLUG_SMT", "COMPILE_TEST")),
    Configuration("x86-64-all", *PC, "allmodconfig", EVERYTHING, ("SMP", "HOTPLUG_SMT", "COMPILE_TEST")),
    Configuration("arm64-all", *ARM, "allmodconfig", EVERYTHING, ("SMP", "HOTPLUG_CPU", "COMPILE_TEST")),
    Configuration(
        "ppc64le-no-hotplug-cpu",
        *(*POWER, "allnoconfig", (*BARE_POWER, "CONFIG_SMP=y")),
        has=("SMP", "PPC64"),
        lacks=("HOTPLUG_CPU", "HOTPLUG_SMT"),
    ),
    Configuration(
        "ppc64le-no-smp",
        *(*POWER, "allnoconfig", BARE_POWER),
        has=("PPC64",),
        lacks=("SMP", "HOTPLUG_CPU", "HOTPLUG_SMT", "NUMA"),
    ),
    Configuration(
        "ppc64le-no-numa",
        *(*POWER, "ppc64le_defconfig", ("# CONFIG_NUMA is not set",)),
        has=("SMP", "HOTPLUG_SMT"),
        lacks=("NUMA",),
    ),
    Configuration(
        "x86-64-no-smp",
        *(*PC, "x86_64_defconfig", ("# CONFIG_SMP is not set",)),
        has=("X86_64",),
        lacks=("SMP", "HOTPLUG_CPU", "HOTPLUG_SMT", "NUMA"),
    ),
    Configuration(
        "x86-64-no-numa",
        *(*PC, "x86_64_defconfig", ("# CONFIG_NUMA is not set",)),
        has=("SMP", "HOTPLUG_SMT"),
        lacks=("NUMA",),
    ),
    Configuration(
        "arm64-no-hotplug-cpu",
        *(*ARM, "defconfig", ("# CONFIG_HOTPLUG_CPU is not set", *NO_SLEEP)),
        has=("SMP",),
        lacks=("HOTPLUG_CPU", "HOTPLUG_SMT"),
    ),
    Configuration(
        "x86-64-no-oneshot",
        *(*PC, "x86_64_defconfig", ("CONFIG_HZ_PERIODIC=y", "# CONFIG_HIGH_RES_TIMERS is not set")),
        has=("GENERIC_CLOCKEVENTS",),
        lacks=("TICK_ONESHOT", "HIGH_RES_TIMERS"),
    ),
    Configuration(
        "m68k-no-clockevents", *AMIGA, "amiga_defconfig", lacks=("GENERIC_CLOCKEVENTS", "SMP", "HOTPLUG_CPU")
    ),
)


@dataclass(frozen=True)
class Compiled:
    """What came of compiling: the objects that the configuration has and that compile, and what was said."""

    objects: frozenset[str]
    findings: frozenset[Finding]
    output: str


def findings_of(output: str, tree: Path) -> frozenset[Finding]:
    """Return the compiler's complaints, without what moves when a line is added above.

    Those about objects that the configuration does not have are none: they would not be compiled.
    """
    return frozenset(
        Finding(os.path.relpath(match["file"], tree), FOLDED.sub("", match["text"]))
        for match in FINDING.finditer(_of_the_configuration(output))
    )


def _of_the_configuration(output: str) -> str:
    """Return the output without the steps that compile what the configuration does not have."""
    starts = [0, *(match.start() for match in STEP.finditer(output)), len(output)]
    steps = [output[start:end] for start, end in itertools.pairwise(starts)]
    marks = [COMPILES.match(step) for step in steps]
    return "".join(
        step for step, mark in zip(steps, marks, strict=True) if not mark or mark["mark"] == "listed"
    )


def problems(stock: Compiled, patched: Compiled) -> list[str]:
    """Return what compiled and does not any more, and what the compiler has to say only now."""
    found = [f"{name} does not compile any more" for name in sorted(stock.objects - patched.objects)]
    fresh = sorted(patched.findings - stock.findings, key=lambda finding: (finding.file, finding.text))
    return found + [f"{finding.file}: {finding.text}" for finding in fresh]


def _failure(doing: str, output: str) -> ToolError:
    return ToolError(f"{doing} failed: {process.last_line(output)}", code=ExitCode.INPUT)


class Bench:
    """An object directory in one configuration, for the tree that a workshop has."""

    def __init__(self, shop: Workshop, configuration: Configuration) -> None:
        self.shop = shop
        self.configuration = configuration
        self.folder = shop.folder / configuration.name
        self.folder.mkdir(exist_ok=True)

    def configure(self) -> None:
        """Make the configuration.

        Raises ToolError: ENVIRONMENT when its compiler is missing, INPUT when the configuration is not
        the one that was asked for.
        """
        asked = self.configuration
        needs.require([Need(f"{asked.prefix}gcc", asked.package)])
        fragment = self.folder / "fragment"
        fragment.write_text("\n".join(asked.changes) + "\n" + NO_WERROR)
        if asked.start in ("allnoconfig", "allmodconfig"):
            self._must(asked.start, f"KCONFIG_ALLCONFIG={fragment}")
        else:
            self._must(asked.start)
            merge: list[str | Path] = [
                self.shop.tree / "scripts/kconfig/merge_config.sh",
                "-m",
                "-Q",
                "-O",
                self.folder,
            ]
            code, output = run([*merge, self.folder / ".config", fragment], self.shop.tree)
            if code:
                raise _failure("merging the fragment", output)
        self._must("olddefconfig")
        wrong = asked.problems((self.folder / ".config").read_text())
        if wrong:
            raise ToolError(f"{asked.name}: {'; '.join(wrong)}", code=ExitCode.INPUT)

    def objects(self, files: Sequence[str]) -> list[str]:
        """Return the objects that source files end up in."""
        units = {
            unit
            for file in files
            if is_for(self.configuration.kbuild, file)
            for unit in units_of(self.shop.tree, file)
        }
        return sorted(str(Path(unit).with_suffix(".o")) for unit in units)

    def compile(self, objects: Sequence[str]) -> Compiled:
        """Compile objects with W=1, as many as will; what the configuration does not have is no object."""
        for name in objects:
            (self.folder / name).unlink(missing_ok=True)
        self._must("prepare")
        targets = [target_of(self.configuration.kbuild, name) for name in objects]
        _, output = self._make("-k", "--output-sync", "W=1", MARK, *targets)
        marks = {os.path.normpath(match["object"]): match["mark"] for match in COMPILES.finditer(output)}
        listed = {name for name, mark in marks.items() if mark == "listed"}
        there = frozenset(name for name in listed if (self.folder / name).exists())
        return Compiled(there, findings_of(output, self.shop.tree), output)

    def _must(self, *arguments: str) -> None:
        code, output = self._make(*arguments)
        if code:
            raise _failure(f"make {arguments[0]}", output)

    def _make(self, *arguments: str) -> tuple[int, str]:
        asked = self.configuration
        return self.shop.make(asked.kbuild, asked.prefix, self.folder, arguments)
