import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.cpulist import format_cpulist, parse_cpulist


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("\n", set()),
        ("0", {0}),
        ("0-3,8,10-11\n", {0, 1, 2, 3, 8, 10, 11}),
        ("0-15:1/8", {0, 8}),
        ("0-7:2/4", {0, 1, 4, 5}),
    ],
)
def test_parses_what_the_kernel_prints(text: str, cpus: set[int]) -> None:
    assert parse_cpulist(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0,,2", "0-7:0/4", "0-7:5/4", "0-7:2", "٣", "1 2"])
def test_refuses_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match=r"CPU"):
        parse_cpulist(text)


@given(st.sets(st.integers(0, 4095)))
def test_what_is_formatted_parses_back(cpus: set[int]) -> None:
    assert parse_cpulist(format_cpulist(cpus)) == cpus


@given(st.sets(st.integers(0, 300), min_size=1))
def test_format_is_the_shortest(cpus: set[int]) -> None:
    runs = sum(cpu - 1 not in cpus for cpu in cpus)
    assert len(format_cpulist(cpus).split(",")) == runs


@given(st.text(max_size=20))
def test_any_text_parses_or_is_refused_with_a_value_error(text: str) -> None:
    try:
        cpus = parse_cpulist(text)
    except ValueError:
        return
    assert parse_cpulist(format_cpulist(cpus)) == cpus
