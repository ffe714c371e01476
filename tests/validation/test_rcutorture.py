"""rcutorture as the kernel's scenario TREE03 runs it, with CPUs that come and go all the time.

Proven: RCU's promises hold, once with the CPU hotplug that rcutorture does itself (one CPU at a time: the
legacy path) and once with SMT switches (chunks). rcutorture is built in and starts with the kernel; it
ends with a power-off, so that its verdict is the last thing on the console.
"""

import logs
import pytest
import verdicts
from proving import Proving, none

from hotplug_common.kernel import source
from hotplug_common.paths import Paths
from tests.lab.labtools import wait_for

pytestmark = pytest.mark.timeout(8 * 3600)
HOLDOFF_S = 150
"""Time to boot with all CPUs."""
TREE03 = (
    "rcutree.gp_preinit_delay=12 rcutree.gp_init_delay=3 rcutree.gp_cleanup_delay=3 rcutree.kthread_prio=2 "
    "threadirqs rcutree.use_softirq=0"
)


def parameters(minutes: float, own_hotplug: bool) -> str:
    """The kernel's command line."""
    words = [
        TREE03,
        f"rcutorture.shutdown_secs={HOLDOFF_S + round(60 * minutes)}",
        "rcutorture.stat_interval=30",
    ]
    if own_hotplug:
        # TREE03 says 200 jiffies, where HZ is 1000.
        words.append(f"rcutorture.onoff_interval=20 rcutorture.onoff_holdoff={HOLDOFF_S}")
    else:
        # The boost test has a hotplug state of its own, which has not opted in to chunks.
        words.append("rcutorture.test_boost=0")
    return " ".join(words)


def expediting(base: str) -> logs.Allowed:
    """rcutorture's warning that somebody else expedites grace periods, by its line in this base."""
    text = (source.obtain(base, Paths.from_environment(), print).tree / logs.TORTURE).read_text()
    number = 1 + text[: text.index("WARN_ON_ONCE(expediting == 0 && rcu_gp_is_expedited())")].count("\n")
    return logs.expedited_by_others(number)


def until_power_off(proving: Proving, seconds: float) -> str:
    """Wait for the end of the test; return the console."""
    wait_for(lambda: proving.lab.status()[proving.name]["state"] == "gone", seconds)
    return proving.log()


@pytest.mark.parametrize("hotplug", ["rcutorture", "smt"])
def test_rcutorture(hotplug: str, proving: Proving, pytestconfig: pytest.Config) -> None:
    minutes = pytestconfig.getoption("--minutes")
    own = hotplug == "rcutorture"
    proving.boot("rcutorture", append=parameters(minutes, own))
    problems = []
    if not own:
        records = proving.script("torture", "--seconds", str(60 * minutes - 60))
        machine = verdicts.the(records, "machine")
        problems += verdicts.completed(records, machine)
        problems += verdicts.plain_switch_problems(verdicts.of_kind(records, "switch"), machine, 64)
    log = until_power_off(proving, HOLDOFF_S + 60 * minutes + 600)
    problems += verdicts.torture_problems(log, operations=round(10 * minutes) if own else 0)
    allowed = logs.ALLOWED if own else (*logs.ALLOWED, expediting(proving.order.base))
    none(problems + proving.past_problems(log, allowed))
