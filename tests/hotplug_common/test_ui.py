"""Progress lines: how often they come, and that no other is made."""

from __future__ import annotations

import time
from functools import partial

import pytest

from hotplug_common import ui


def test_a_line_that_is_not_due_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 114.9, 115.0, 116.0, 129.0, 131.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    printed: list[str] = []
    made: list[int] = []

    def line(call: int) -> str:
        made.append(call)
        return f"call {call}"

    slow = ui.once_every(15, printed.append)
    for call in range(6):
        slow(partial(line, call))
    assert printed == ["call 2", "call 5"]
    assert made == [2, 5]
