"""Compiling clock-probe, one static program per machine."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from hotplug_common import process
from hotplug_common.arch import Arch
from hotplug_host.errors import ExitCode, ToolError

SOURCES = Path(__file__).parent / "probe"
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wmissing-prototypes", "-pthread")
RELEASE = ("-O2", "-static", "-s")
TIMEOUT_S = 300.0


def compiler(arch: Arch) -> str:
    """Return the C compiler for a machine; ToolError (ENVIRONMENT) when it is not installed."""
    program = f"{arch.cross_prefix}gcc"
    if shutil.which(program) is None:
        package = "gcc" if arch.native else arch.cross_package
        raise ToolError(
            f"{program} is not installed",
            f"tools/setup/setup.sh installs it ({package}), and the C library for {arch.debian}",
            ExitCode.ENVIRONMENT,
        )
    return program


def compile_probe(arch: Arch, output: Path, flags: Sequence[str] = RELEASE) -> None:
    """Compile clock-probe into OUTPUT; ToolError (ENVIRONMENT) when that fails."""
    sources = sorted(map(str, SOURCES.glob("*.c")))
    command = [compiler(arch), *FLAGS, *flags, "-o", str(output), *sources]
    done = process.run(command, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise ToolError(
            f"clock-probe does not compile for {arch.name}: {process.last_line(done.output)}",
            "tools/setup/setup.sh installs what it needs",
            ExitCode.ENVIRONMENT,
        )


def cached_probe(arch: Arch, cache: Path) -> Path:
    """Return clock-probe for a machine, compiled once for these sources, flags and compiler."""
    key = hashlib.sha256()
    key.update(process.run([compiler(arch), "--version"]).output.encode())
    key.update("\0".join((*FLAGS, *RELEASE)).encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    program = cache / f"{arch.name}-{key.hexdigest()[:16]}" / "clock-probe"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        # Under a name of its own first: another may be compiling the same, or find it half written.
        partial = program.with_name(f"clock-probe.{os.getpid()}")
        compile_probe(arch, partial)
        partial.replace(program)
    return program
