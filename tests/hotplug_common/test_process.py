"""Running tools: what they are given."""

import pytest

from hotplug_common import process


@pytest.mark.timeout(60)
def test_a_tool_that_reads_late_still_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fits into a pipe, to a tool that first takes longer than two ticks."""
    monkeypatch.setattr(process, "TICK_S", 0.05)
    ticks: list[int] = []
    given = b"x" * (1 << 20)
    done = process.run(["sh", "-c", "sleep 0.3; wc -c"], stdin=given, tick=lambda: ticks.append(1))
    assert (done.returncode, int(done.output)) == (0, len(given))
    assert ticks


def test_a_tool_that_is_given_nothing_reads_an_end() -> None:
    assert process.run(["wc", "-c"]).output.strip() == "0"


def test_a_tool_that_does_not_read_is_no_error() -> None:
    assert process.run(["true"], stdin=b"x" * (1 << 20)).returncode == 0
