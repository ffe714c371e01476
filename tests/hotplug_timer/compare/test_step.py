"""The judgement of a step of a bisection: which end it is like."""

from __future__ import annotations

import io
import json

import pytest

from hotplug_timer.compare.step import judge, main


@pytest.mark.parametrize(
    ("against_old", "against_new", "verdict"),
    [
        ("no difference shown", "slower", "old"),
        ("faster", "no difference shown", "new"),
        ("slower", "too few samples", "new"),
        ("faster", "slower", "skip"),
        ("no difference shown", "no difference shown", "skip"),
        ("not measured", "not measured", "skip"),
    ],
)
def test_a_step_is_like_one_end_or_skipped(against_old: str, against_new: str, verdict: str) -> None:
    assert judge(against_old, against_new) == verdict


def test_it_reads_two_comparisons_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"operation": "smt=off", "variant": "step"}
    comparisons = [{"comparisons": [{**row, "verdict": "faster"}]}, {"comparisons": []}]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(comparisons)))

    assert main(["smt=off"]) == 0

    said = capsys.readouterr()
    assert said.out == "new"
    assert said.err == "smt=off: faster against the old end, not measured against the new"
