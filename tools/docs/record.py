#!/usr/bin/env python3
"""Record the runs of docs/tutorial/slow-switch.md: the stock and the patched kernel, in a guest of the lab.

Writes output and recordings to docs/examples/switch; `make docs` puts them into the pages.
Takes ten minutes, and longer if the lab has to build kernels or the disk first. The guest always ends.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotplug_host.timing.tracing import COUNTS, OFFCPU, STATES
from hotplug_timer.bundle import build_bundle

EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/switch"
LAB = str(Path(sys.executable).parent / "lpar-lab")
TIMER = "python3 hotplug-timer.pyz"
MODES = (COUNTS, STATES, OFFCPU)
GUEST = "lpar1"
SHAPE = ("--cores", "2", "--threads", "8")


def main() -> None:
    """Record both kernels, and with the stock one also what an operator can do today."""
    EXAMPLE.mkdir(parents=True, exist_ok=True)
    for variant in ("stock", "patched"):
        with guest(variant):
            record(variant)
            if variant == "stock":
                for level in ("off", "on"):
                    show(f"{TIMER} smt {level} --expedite", f"expedite-{level}.log")


@contextmanager
def guest(variant: str) -> Iterator[None]:
    """Have the guest run a kernel, with the timer in it."""
    subprocess.run([LAB, "up", GUEST, *SHAPE, "--variant", variant], check=True)
    try:
        inside("cat > hotplug-timer.pyz", build_bundle())
        yield
    finally:
        subprocess.run([LAB, "down", GUEST], check=True)


def record(variant: str) -> None:
    """Time and trace the guest's switches; fetch the result file, and the text of the traces."""
    traces = " ".join(f"--trace {mode}" for mode in MODES)
    result = f"{variant}.jsonl"
    command = f"{TIMER} run smt=off smt=on --variant {variant} --iterations 6 --output {result} {traces}"
    show(command, f"{variant}.log")
    (EXAMPLE / result).write_bytes(inside(f"cat {result}"))
    for mode in MODES:
        trace = f"{variant}.smt=off.{mode}"
        text = inside(f"trace-cmd report -t -O parent -i {trace}.dat")
        (EXAMPLE / f"{trace}.txt.xz").write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def show(command: str, log: str) -> None:
    """Run a command in the guest, and keep it with what it printed."""
    printed = inside(f"{command} 2>&1").decode()
    (EXAMPLE / log).write_text(f"$ {command}\n{printed}", "utf-8")


def inside(command: str, given: bytes = b"") -> bytes:
    """Return what a command prints in the guest; CalledProcessError when it fails."""
    ssh = [LAB, "ssh", GUEST, "--", command]
    return subprocess.run(ssh, check=True, input=given, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    main()
