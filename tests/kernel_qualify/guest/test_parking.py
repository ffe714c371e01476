"""The order of teardown callbacks, from traces of two CPUs that go off."""

import pytest

from kernel_qualify.guest import parking


def event(cpu: int, name: str, rest: str) -> str:
    return f"      cpuhp/{cpu}-21      [{cpu:03}] .....   17.325{cpu:03}: {name}: {rest}"


def entered(cpu: int, step: int, function: str, name: str = "cpuhp_enter") -> str:
    return event(cpu, name, f"cpu: {cpu:04} target: 140 step: {step} ({function})")


def exited(cpu: int, step: int) -> str:
    return event(cpu, "cpuhp_exit", f" cpu: {cpu:04}  state: {step} step: {step} ret: 0")


HEADER = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 9/9   #P:16"
CALLBACKS = [
    line
    for cpu in (1, 2)
    for line in (
        entered(cpu, 145, "cpuhp_kick_ap_work"),
        entered(cpu, 190, "workqueue_offline_cpu"),
        exited(cpu, 190),
        entered(cpu, 155, "blk_mq_hctx_notify_offline", "cpuhp_multi_enter"),
        exited(cpu, 155),
    )
]
"""What CPUs run before they park their threads."""
PARKS = [
    entered(1, 145, "cpuhp_kick_ap_work"),
    entered(1, 145, "smpboot_park_threads"),
    entered(2, 145, "cpuhp_kick_ap_work"),
    exited(1, 145),
    entered(2, 145, "smpboot_park_threads"),
    entered(1, 143, "sched_cpu_wait_empty"),
    exited(2, 145),
    entered(2, 143, "sched_cpu_wait_empty"),
]
DEATHS = [
    entered(1, 140, "takedown_cpu"),
    entered(2, 140, "takedown_cpu"),
    entered(1, 70, "timers_dead_cpu"),
]


@pytest.mark.parametrize("chunks", [1, 2])
def test_cpus_that_park_after_all_callbacks_have_no_strays(chunks: int) -> None:
    text = "\n".join([HEADER, *[*CALLBACKS, *PARKS, *DEATHS] * chunks])
    assert parking.strays(text) == []
    assert parking.parked(text) == 2 * chunks


def test_cpus_that_go_one_by_one_have_no_strays() -> None:
    one, two = ([line for line in CALLBACKS + PARKS + DEATHS if f"cpu: {cpu:04}" in line] for cpu in (1, 2))
    assert parking.strays("\n".join([HEADER, *one, *two])) == []


def test_a_cpu_that_parks_before_the_callbacks_of_the_next_one_makes_strays() -> None:
    one, two = ([line for line in CALLBACKS + PARKS if f"cpu: {cpu:04}" in line] for cpu in (1, 2))
    assert parking.strays("\n".join([HEADER, *one, *two, *DEATHS])) == [
        "workqueue_offline_cpu of CPU 2",
        "blk_mq_hctx_notify_offline of CPU 2",
    ]
