"""Where the guest's injection of faults puts its cpusets."""

from pathlib import Path

import pytest

from kernel_qualify.guest import cpusets, injection


@pytest.mark.parametrize(
    ("threads", "places", "partition", "member"),
    [
        (8, [5, 7, 9], [8, 9, 10], [5, 7, 15]),
        (4, [6, 9, 10], [12, 13, 14], [6, 9, 15]),
        (2, [9, 13, 15], [14, 15], [9, 11, 13]),
    ],
    ids=["SMT8", "SMT4", "SMT2"],
)
def test_cpusets_have_cpus_of_the_guest_and_share_none(
    threads: int, places: list[int], partition: list[int], member: list[int]
) -> None:
    victims = [cpu for cpu in range(16) if cpu % threads]
    assert injection.cpusets_of(range(16), victims, places) == (partition, member)


def test_a_cpuset_that_cannot_have_its_cpus_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpusets, "CGROUPS", tmp_path)
    with pytest.raises(OSError, match="No such file"):
        cpusets.Cpuset("partition", [14, 15, 16], "root")
