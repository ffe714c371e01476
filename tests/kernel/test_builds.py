"""What the lab's guests boot is built: their disk, and both kernels, where the lab finds them again.

Cores that the checks of single patches leave idle do it: make test-kernel runs both files side by side.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotplug_common.kernel import series
from kernel_qualify.patches import patchfiles
from tests import ROOT

# The first kernel waits until the sources are there, which the checks may be fetching.
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(3000)]
BOOTED = "6.12"
"""The line that the lab's own tests boot. kernel-qualify links and boots others, with --line."""
ADDED = {
    series.STOCK: [],
    series.PATCHED: [patch.name for patch in patchfiles.line_patches(ROOT / "kernel-patches", BOOTED)],
}


def built(*arguments: str) -> Path:
    """Build by the lab's own command; return the file that it names."""
    command = Path(sys.executable).with_name("lpar-lab")
    done = subprocess.run([command, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return Path(done.stdout.strip())


def test_disk_of_guests_is_built() -> None:
    disk = built("build-rootfs", "--arch", "ppc64le")
    assert disk.stat().st_size > 0
    assert built("build-rootfs", "--arch", "ppc64le") == disk


@pytest.mark.parametrize("variant", [series.PATCHED, series.STOCK])
def test_kernel_is_built_with_its_whole_series(variant: str) -> None:
    file = built("build-kernel", "--line", BOOTED, "--variant", variant, "--print-artifact")
    artifact = json.loads(file.read_text())
    assert artifact["patches"] == ADDED[variant]
    assert artifact["release"].startswith(f"{BOOTED}.")
    assert Path(artifact["image"]).read_bytes()[:4] == b"\x7fELF"
