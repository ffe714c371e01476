"""Compile the harness: kernel code over shim headers, beside the loops it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError

HERE = Path(__file__).resolve().parent / "c"
NEEDS = (preflight.Need("gcc", "gcc"), preflight.Need("stdio.h", "libc6-dev"))
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"),
    # As the kernel has it.
    *("-fno-strict-aliasing", "-fwrapv", "-Wno-pointer-sign", "-Wno-sign-compare"),
    "-DCONFIG_COMBINED_COUNTER",
)


def build(kernel_code: Mapping[str, str], folder: Path, flags: Sequence[str] = ()) -> Path:
    """Write the kernel code into `folder`, compile all, with `flags` too, and return the program.

    Raises ToolError: ENVIRONMENT without a compiler, INPUT when the code does not compile.
    """
    preflight.require(NEEDS)
    for name, text in kernel_code.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    sources = [*sorted(HERE.glob("*.c")), *sorted(HERE.glob("reference/*.c"))]
    sources += [folder / name for name in kernel_code if name.endswith(".c")]
    return _compile(sources, (folder / "include", folder, HERE), flags, folder / "clock-harness")


def build_devices(adjust_code: str, folder: Path) -> Path:
    """Compile, as build() does, the program that tells clock-event devices the rate of the clock."""
    preflight.require(NEEDS)
    (folder / "adjust.h").write_text(adjust_code)
    return _compile([HERE / "devices/devices.c"], (folder,), (), folder / "devices")


def _compile(sources: Sequence[Path], folders: Sequence[Path], flags: Sequence[str], program: Path) -> Path:
    includes = [f"-I{path}" for path in (HERE / "shim", *folders)]
    done = process.run(["gcc", *FLAGS, *flags, *includes, *sources, "-o", program])
    if done.returncode != 0:
        errors = [line for line in done.output.splitlines() if "error:" in line]
        why = errors[0] if errors else process.last_line(done.output)
        raise ToolError(f"the harness does not compile: {why}", "check the series", ExitCode.INPUT)
    return program
