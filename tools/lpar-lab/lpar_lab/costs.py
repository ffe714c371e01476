"""Costs of a guest's switches, measured in it by `hotplug-timer measure-costs` and fetched from it."""

from __future__ import annotations

import base64
import io
import tarfile
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
    # Measured and fetched in one connection: to make one takes an emulated guest more than a second.
    remote = (
        f"mkdir {FOLDER} && cat > {BUNDLE}"
        f" && python3 {BUNDLE} measure-costs --settle {settle_s} --output {FOLDER}/{RESULT} >&2"
        f" && tar -C {FOLDER} -c . | base64"
    )
    words = [*ssh.command(guest, port), remote]
    try:
        done = process.run(words, stdin=bundle.read_bytes(), tick=tick, merge_errors=False)
    finally:
        ssh.run(guest, port, f"rm -rf {FOLDER} {BUNDLE}", CLEAN_S)
    if done.returncode:
        raise ToolError(f"the guest's costs: {process.last_line(done.errors)}", code=ExitCode.GUEST)
    output.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done.output))) as files:
        for member in files:
            if content := files.extractfile(member):
                (output / Path(member.name).name).write_bytes(content.read())
    return output / RESULT
