"""The kernel's own tools/testing/selftests/cpu-hotplug, of the base under test.

Proven: single hotplug operations, which the series leaves alone, work as the kernel's script expects,
also after CPUs went and came in chunks.
"""

import subprocess

import pytest
import verdicts
from proving import Proving, none

from hotplug_common.kernel import source, tree
from hotplug_common.paths import Paths

pytestmark = pytest.mark.timeout(2 * 3600)
SCRIPT = "tools/testing/selftests/cpu-hotplug/cpu-on-off-test.sh"
IN_GUEST = "/run/cpu-on-off-test.sh"


def script_of(base: str) -> bytes:
    """The script as the base has it, whatever the lab's tree is at right now."""
    (*_, newest) = source.cached(base, Paths.from_environment())
    command = ["git", "-C", str(newest.tree), "show", f"{tree.BASE}:{SCRIPT}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_cpu_hotplug_selftest(proving: Proving) -> None:
    proving.boot("debug", "validation")
    script = script_of(proving.order.base)
    proving.lab.must("ssh", proving.name, "--", f"cat > {IN_GUEST}", stdin=script, timeout=120)
    records = proving.script("selftests", IN_GUEST)
    none(verdicts.selftest_problems(records) + proving.log_problems())
