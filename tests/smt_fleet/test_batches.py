"""Hosts in batches, as Ansible makes them, and when each begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ToolError
from smt_fleet.batches import DEFAULT, batches, parse

HOSTS = [f"lpar{number}" for number in range(1, 201)]


def test_two_hundred_hosts_by_default() -> None:
    made = batches(HOSTS, parse(",".join(DEFAULT)), minutes=10, soak=5)
    assert [len(batch.hosts) for batch in made] == [1, 5, 20, 50, 50, 50, 24]
    assert [name for batch in made for name in batch.hosts] == HOSTS
    assert [(batch.begins, batch.ends) for batch in made[:3]] == [(0, 10), (15, 25), (25, 35)]


@pytest.mark.parametrize("text", ["", "0", "1,,2", "101%", "-1", "5 %", "x"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ToolError, match="is no size of a batch; give numbers and percentages"):
        parse(text)


sizes = st.one_of(st.integers(1, 50), st.integers(1, 100).map(lambda number: f"{number}%"))


@given(st.integers(0, 300), st.lists(sizes, min_size=1, max_size=5))
def test_every_host_is_in_one_batch(count: int, spec: list[int | str]) -> None:
    hosts = [str(number) for number in range(count)]
    made = batches(hosts, spec, 1, 0)
    assert [name for batch in made for name in batch.hosts] == hosts
    assert all(batch.hosts for batch in made)


def test_a_batch_takes_as_long_as_its_slowest_host() -> None:
    own = {"lpar1": 60.0, "lpar3": 2.0, "lpar4": 30.0}
    made = batches(HOSTS[:4], parse("1,2"), minutes=10, soak=5, own=own)
    assert [(batch.begins, batch.ends) for batch in made] == [(0, 60), (65, 75), (75, 105)]
