"""Every hotplug state that can fail does, in the first, a middle and the last CPU of a chunk, off and on.

Proven: the switch stops there. Earlier CPUs went, the failing one and later ones did not; the writer and
the log know; sched domains and cpusets fit the CPUs that are left; the next switches work; the log is silent.
"""

import pytest
import verdicts
from proving import Proving, none

pytestmark = pytest.mark.timeout(4 * 3600)


def test_failure_injection(proving: Proving, pytestconfig: pytest.Config) -> None:
    proving.boot("debug", "validation")
    always = {f"--always={name}" for names in verdicts.MUST_FAIL.values() for name in names}
    every = str(pytestconfig.getoption("--every"))
    records = proving.script("injection", "--every", every, *sorted(always))
    none(verdicts.fault_problems(records) + proving.log_problems())
