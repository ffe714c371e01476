"""Programs of rt-tests for a guest, from the archive its base disk is of."""

import os
import subprocess
import tarfile
from pathlib import Path

from hotplug_common.arch import Arch
from hotplug_common.guest import rootfs
from hotplug_common.paths import Paths

PROGRAMS = ("hackbench", "cyclictest")
LIBRARIES = ("libnuma.so.1", "libcpupower.so.1")
"""Those that a base disk does not have; the latter is for newer releases of rt-tests."""
PACKAGES = ("rt-tests", "libnuma1", "libcpupower1")


def files(arch: Arch, folder: Path) -> dict[str, bytes]:
    """Fetch the packages for `arch` into an empty folder; return the files that a guest needs, by name.

    Raises CalledProcessError when the archive cannot be read, ToolError when there is no base disk to be had.
    """
    root = folder / "rt-tests.tar"
    release = rootfs.build(arch, Paths.from_environment(), print).release
    words: list[str | Path] = [
        *("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}"),
        *rootfs.archive_options(arch),
        *(release, root, "-"),
    ]
    subprocess.run(
        words,
        input=rootfs.sources(release),
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    found: dict[str, bytes] = {}
    with tarfile.open(root) as tar:
        for member in tar:
            name = Path(member.name).name
            # A library's name is a link beside the file.
            if name in (*PROGRAMS, *LIBRARIES):
                stream = tar.extractfile(member)
                assert stream, member.name
                found.setdefault(name, stream.read())
    assert set(found) == {*PROGRAMS, *LIBRARIES}, found.keys()
    return found
