"""A chain of kexecs: which jumps lost CPUs, and whether all were made."""

from typing import Any

from kernel_qualify.judge import kexecs


def chain(*online: list[int]) -> list[kexecs.Boot]:
    records: list[dict[str, Any]] = [{"present": [0, 1, 2, 3], "online": cpus} for cpus in online]
    return kexecs.boots(records)


def test_a_chain_that_kept_all_cpus_has_no_problem() -> None:
    assert kexecs.problems(chain([0, 1, 2, 3], [0, 1, 2, 3]), 1) == []


def test_the_jump_that_lost_cpus_is_named_with_them() -> None:
    """The guest makes no other one."""
    found = kexecs.problems(chain([0, 1, 2, 3], [0, 1, 2, 3], [0, 2]), 50)
    assert found == ["CPUs 1,3 did not start after jump 2 of 50", "2 of 50 jumps were made"]


def test_a_guest_that_lacked_cpus_from_the_start_is_no_jumps_fault() -> None:
    assert kexecs.problems(chain([0, 1]), 1)[0] == "CPUs 2-3 did not start after power-on"


def test_jumps_that_are_missing_are_counted() -> None:
    assert kexecs.problems(chain([0, 1, 2, 3], [0, 1, 2, 3]), 50) == ["1 of 50 jumps were made"]
    assert kexecs.problems([], 50) == ["0 of 50 jumps were made"]
