"""Programs of rt-tests for a guest, from the archive its base disk is of."""

import os
import tarfile
from pathlib import Path

from hotplug_common import process
from hotplug_common.arch import Arch
from hotplug_common.guest import rootfs
from hotplug_common.paths import Paths
from hotplug_common.ui import Say
from hotplug_host.errors import ToolError

PROGRAMS = ("hackbench", "cyclictest")
LIBRARIES = ("libnuma.so.1", "libcpupower.so.1")
"""Those that a base disk does not have; the latter is for newer releases of rt-tests."""
PACKAGES = ("rt-tests", "libnuma1", "libcpupower1")


def files(arch: Arch, folder: Path, paths: Paths, say: Say) -> dict[str, bytes]:
    """Fetch the packages for `arch` into an empty folder; return the files that a guest needs, by name.

    Raises ToolError (ENVIRONMENT) when the archive cannot be read, or when there is no base disk to be had.
    """
    root = folder / "rt-tests.tar"
    release = rootfs.build(arch, paths, say).release
    words: list[str | Path] = [
        *("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}"),
        *rootfs.archive_options(arch),
        *(release, root, "-"),
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = process.run(words, env=environment, stdin=rootfs.sources(release).encode())
    if done.returncode:
        raise ToolError(f"mmdebstrap failed: {process.last_line(done.output)}", "check the network")
    return unpacked(root)


def unpacked(root: Path) -> dict[str, bytes]:
    """Return the files that a guest needs of a root file system in a tar file, by name.

    Raises ToolError (ENVIRONMENT) when one is missing.
    """
    found: dict[str, bytes] = {}
    with tarfile.open(root) as tar:
        for member in tar:
            name = Path(member.name).name
            # A library's name is a link beside the file.
            if name in (*PROGRAMS, *LIBRARIES) and (stream := tar.extractfile(member)):
                found.setdefault(name, stream.read())
    missing = sorted({*PROGRAMS, *LIBRARIES} - set(found))
    if missing:
        raise ToolError(f"the packages of rt-tests hold no {', '.join(missing)}", "check the release")
    return found
