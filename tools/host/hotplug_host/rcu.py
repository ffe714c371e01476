"""The kernel's files for RCU settings, and how long it waits by itself before it forces quiescent states."""

from __future__ import annotations

RCU_EXPEDITED = "/sys/kernel/rcu_expedited"
RCU_NORMAL = "/sys/kernel/rcu_normal"
FQS_DELAYS = (
    "/sys/module/rcutree/parameters/jiffies_till_first_fqs",
    "/sys/module/rcutree/parameters/jiffies_till_next_fqs",
)
#: RCU_JIFFIES_TILL_FORCE_QS is 1 up to HZ=250, 2 up to 500 and 3 above.
FQS_BASES = (1, 2, 3)
#: RCU_JIFFIES_FQS_DIV in kernel/rcu/tree.h: one more jiffy of waiting for every so many CPUs.
CPUS_PER_FQS_JIFFY = 256


def fqs_delay(base: int, cpus: int) -> int:
    """Return the jiffies that rcu_init_geometry() chooses for so many CPUs; `base` is one of `FQS_BASES`."""
    return base + cpus // CPUS_PER_FQS_JIFFY
