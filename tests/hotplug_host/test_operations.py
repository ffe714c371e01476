"""How operations are written: one grammar for the command line, the records and the schema."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotplug_host.errors import ToolError
from hotplug_host.operations import CORES_ON, CPUS, SMT, change, key_of, kind_of, name_of, parse, parse_one
from hotplug_timer.schema import RESULT

PATTERN = re.compile(RESULT.read()["$defs"]["timer_operation"]["pattern"])
#: Ranges of more than a few thousand CPUs would take the test's time.
words = st.one_of(
    st.from_regex(PATTERN, fullmatch=True),
    st.from_regex(r"(smt|cores-on|cpus)=[0-9,:a-z@./-]{0,8}", fullmatch=True),
    st.text(max_size=12),
).filter(lambda text: re.search("[0-9]{5}", text) is None)


@given(words)
@settings(deadline=None)
def test_every_name_that_is_recorded_fits_the_schema_and_names_itself(text: str) -> None:
    try:
        specs = parse([text])
    except ToolError:
        return
    for spec in specs:
        name = name_of(spec.kind, spec.argument)
        assert PATTERN.fullmatch(name)
        again = parse_one(name)
        assert (again.kind, again.argument) == (spec.kind, spec.argument)
        assert kind_of(name) == spec.kind


@pytest.mark.parametrize(
    ("name", "kind", "key"),
    [
        ("smt=off", SMT, "off"),
        ("smt=on", SMT, "on"),
        ("smt=4", SMT, "smt4"),
        ("cores-on=1", CORES_ON, "cores-on=1"),
        ("cpus=1-3:off", CPUS, "cpus=1-3:off"),
        ("scale/vdso/1-thread", "scale/vdso/1-thread", "scale/vdso/1-thread"),
    ],
)
def test_kinds_and_keys(name: str, kind: str, key: str) -> None:
    assert (kind_of(name), key_of(name)) == (kind, key)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({0, 1, 2, 3}, {0}, ("off", 3)),
        ({0}, {0, 1, 2, 3}, ("on", 3)),
        ({0, 1, 4, 5}, {0, 2}, ("off", 4)),
        ({0}, {0}, (None, 0)),
        (set(), set(), (None, 0)),
    ],
)
def test_a_change_has_a_direction_and_a_number(
    before: set[int], after: set[int], expected: tuple[str | None, int]
) -> None:
    assert change(frozenset(before), frozenset(after)) == expected
