"""What is read from pahole and from a commit message, and what is wrong when they differ."""

from pathlib import Path

import pytest

from hotplug_host.errors import ToolError
from kernel_qualify.patches import layout
from kernel_qualify.patches.layout import Member

OUTPUT = """\
struct clock_event_device {
\tvoid                       (*event_handler)(struct clock_event_device *); /*     0     8 */
\tktime_t                    next_event;           /*     8     8 */
\tenum clock_event_state     state_use_accessors;  /*    16     4 */
\tu8                         adj_shift;            /*    20     1 */
\tu8                         cs_id;                /*    21     1 */

\t/* XXX 2 bytes hole, try to pack */

\tint                        irqs[10];             /*    24    40 */
\t/* --- cacheline 1 boundary (64 bytes) --- */
\tstruct {
\t\tint                inner;                /*    64     4 */
\t} nested;                                        /*    64     4 */
\tconst struct cpumask  *    cpumask;              /*    72     8 */

\t/* size: 128, cachelines: 2, members: 8 */
} __attribute__((__aligned__(64)));
"""
MEMBERS = {
    "event_handler": Member(0, 8),
    "next_event": Member(8, 8),
    "state_use_accessors": Member(16, 4),
    "adj_shift": Member(20, 1),
    "cs_id": Member(21, 1),
    "irqs": Member(24, 40),
    "nested": Member(64, 4),
    "cpumask": Member(72, 8),
}
MESSAGE = """\
A line of text with adj_shift 20 in it:

\tevent_handler\t\t 0\tstate\t16
\tnext_event\t\t 8\tadj_shift, cs_id\t20

    more text
"""


def test_members_of_a_struct() -> None:
    assert layout.members(OUTPUT) == MEMBERS


def test_table_of_a_message() -> None:
    assert layout.told(MESSAGE) == {
        "event_handler": 0,
        "state": 16,
        "next_event": 8,
        "adj_shift, cs_id": 20,
    }


def test_a_table_that_is_right() -> None:
    assert layout.wrong(layout.told(MESSAGE), MEMBERS, within=64) == []


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"next_event": 16}, "next_event is at 8, not at 16"),
        ({"next_event, adj_shift": 8}, "adj_shift is at 20, not at 16"),
        ({"cpumask": 72}, "cpumask ends at 80, after 64"),
        ({"nothing": 0}, "nothing is no member"),
    ],
)
def test_what_is_wrong_with_a_table(told: dict[str, int], problem: str) -> None:
    assert layout.wrong(told, MEMBERS, within=64) == [problem]


def test_an_object_without_the_struct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pahole = tmp_path / "pahole"
    pahole.write_text("#!/bin/sh\n")
    pahole.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ToolError, match="no struct nothing: was it compiled with -g"):
        layout.of("nothing", tmp_path / "some.o")
