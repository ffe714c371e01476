"""Costs of a guest's switches, measured in it by `hotplug-timer measure-costs` and fetched from it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from hotplug_common import process
from hotplug_common.guest import ssh
from hotplug_host.errors import ExitCode, ToolError

RESULT = "costs.jsonl"
CLEAN_S = 10.0
"""So long a guest that may be lost is waited for."""
FOLDER, BUNDLE = "/tmp/costs", "/tmp/costs.pyz"  # noqa: S108 - the guest's, which has no other user


def measure(
    guest: Path, port: int, bundle: Path, output: Path, tick: Callable[[], None], *, settle_s: float
) -> Path:
    """Measure in a guest that answers on PORT, whose folder is GUEST; return the result file in OUTPUT.

    Its traces lie beside it. After each switch the guest settles for `settle_s` seconds. `tick` is called
    meanwhile. Raises ToolError (GUEST) with the last line of what failed in the guest, which is left without
    these files on every way out.
    """
    words = ssh.command(guest, port)

    def inside(remote: str, stdin: bytes | None = None) -> str:
        done = process.run([*words, remote], stdin=stdin, tick=tick, merge_errors=False)
        if done.returncode:
            raise ToolError(f"the guest's costs: {process.last_line(done.errors)}", code=ExitCode.GUEST)
        return done.output

    output.mkdir(parents=True, exist_ok=True)
    try:
        inside(f"mkdir {FOLDER} && cat > {BUNDLE}", bundle.read_bytes())
        inside(f"python3 {BUNDLE} measure-costs --settle {settle_s} --output {FOLDER}/{RESULT}")
        for name in inside(f"ls {FOLDER}").splitlines():
            (output / name).write_text(inside(f"cat {shlex.quote(f'{FOLDER}/{name}')}"))
    finally:
        ssh.run(guest, port, f"rm -rf {FOLDER} {BUNDLE}", CLEAN_S)
    return output / RESULT
