#!/usr/bin/env python3
"""Record the runs that docs/hotplug-timer.md tells of: stock and patched, each in a guest of the lab.

Writes what was printed and recorded there to docs/examples/switch; `make docs` puts it into the pages.
Builds what the lab lacks; else it takes some ten minutes. Guests are taken down in any case.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotplug_timer.bundle import build_bundle
from hotplug_timer.target.tracing import COUNTS, OFFCPU, STATES

EXAMPLE = Path(__file__).resolve().parent / "examples/switch"
LAB = str(Path(sys.executable).parent / "lpar-lab")
TIMER = "python3 hotplug-timer.pyz"
MODES = (COUNTS, STATES, OFFCPU)
SHAPE = ("--cores", "2", "--threads", "8")


def main() -> None:
    """Record both kernels, and on the stock one also what an operator can do today."""
    EXAMPLE.mkdir(parents=True, exist_ok=True)
    for variant in ("stock", "patched"):
        with guest(variant) as name:
            record(name, variant)
            if variant == "stock":
                for level in ("off", "on"):
                    show(name, f"{TIMER} smt {level} --expedite", f"expedite-{level}.log")


@contextmanager
def guest(variant: str) -> Iterator[str]:
    """Give a running guest that has the timer."""
    name = f"record-{variant}"
    subprocess.run([LAB, "up", name, *SHAPE, "--variant", variant], check=True)
    try:
        inside(name, "cat > hotplug-timer.pyz", build_bundle())
        yield name
    finally:
        subprocess.run([LAB, "down", name], check=True)


def record(name: str, variant: str) -> None:
    """Time and trace a guest's switches; fetch the result file, and the text of the traces."""
    traces = " ".join(f"--trace {mode}" for mode in MODES)
    result = f"{variant}.jsonl"
    show(
        name,
        f"{TIMER} run smt=off smt=on --label {variant} --iterations 6 --output {result} {traces}",
        f"{variant}.log",
    )
    (EXAMPLE / result).write_bytes(inside(name, f"cat {result}"))
    for mode in MODES:
        trace = f"{variant}.smt=off.{mode}"
        text = inside(name, f"trace-cmd report -t -O parent -i {trace}.dat")
        (EXAMPLE / f"{trace}.txt.xz").write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def show(name: str, command: str, log: str) -> None:
    """Run a command in a guest, and keep it with what it printed."""
    printed = inside(name, f"{command} 2>&1").decode()
    (EXAMPLE / log).write_text(f"$ {command}\n{printed}", "utf-8")


def inside(name: str, command: str, given: bytes = b"") -> bytes:
    """Return what a command prints in a guest; CalledProcessError when it fails."""
    ssh = [LAB, "ssh", name, "--", command]
    return subprocess.run(ssh, check=True, input=given, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main()
