"""Print of each kernel, as a line of JSON, what preflight holds against a host: its release and drivers.

The configuration is where artifact.json says, else beside it; modules.alias lies beside it where modules come
with the kernel.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hotplug_host.entry import Parser, guarded
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.preflight.drivers import Kernel, read_config


def describe(artifact: Path) -> Kernel:
    """Return a kernel by its artefact. ToolError (INPUT) where that cannot be read."""
    try:
        described = json.loads(artifact.read_text())
        config = artifact.parent / described.get("config", "config")
        if not config.is_file():
            return Kernel(described["release"], described["arch"])
        aliases = artifact.parent / "modules.alias"
        return read_config(
            config.read_text(),
            described["release"],
            described["arch"],
            aliases.read_text() if aliases.is_file() else None,
        )
    except (OSError, ValueError, KeyError) as error:
        raise ToolError(
            f"{artifact} describes no kernel: {error}", "build it again", ExitCode.INPUT
        ) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and print; returns the exit code."""
    parser = Parser(prog="kernel-drivers", description=__doc__)
    parser.add_argument("artifacts", type=Path, nargs="*", metavar="ARTIFACT")

    def work() -> None:
        kernels = map(describe, parser.parse_args(argv).artifacts)
        sys.stdout.write("".join(f"{json.dumps(asdict(kernel))}\n" for kernel in kernels))

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
