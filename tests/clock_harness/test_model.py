"""The models: what spin says of them, and how its words are read."""

from pathlib import Path

import pytest

from clock_harness import model
from clock_harness.model import BOUND, ORDER, Claim, Verdict
from hotplug_common import needs as preflight
from hotplug_host.errors import ToolError

HOLDS = Claim("it holds", "shared.pml", ("COMBINED",))
FAILS = Claim("it fails", "shared.pml", ("UPSTREAM",), ORDER)
WELL = """
(Spin Version 6.5.2 -- 6 December 2019)

Full statespace search for:
	assertion violations	+
State-vector 44 byte, depth reached 84, errors: 0
   502126 states, stored
"""
VIOLATED = """
pan:1: assertion violated (result>=before) (at depth 42)
pan: wrote shared.pml.trail

(Spin Version 6.5.2 -- 6 December 2019)
Warning: Search not completed

State-vector 44 byte, depth reached 47, errors: 1
      650 states, stored
"""


def test_a_search_that_finds_nothing() -> None:
    verdict = model.judge(WELL, HOLDS)
    assert verdict == Verdict(502126, "")
    assert model.as_claimed(HOLDS, verdict)
    assert not model.as_claimed(FAILS, verdict)


def test_a_search_that_finds_something() -> None:
    verdict = model.judge(VIOLATED, FAILS)
    assert verdict == Verdict(650, "result>=before")
    assert model.as_claimed(FAILS, verdict)
    assert not model.as_claimed(HOLDS, verdict)


def test_another_assertion_is_not_the_one_that_has_to_fail() -> None:
    claim = Claim("it waits", "shared.pml", ("UPSTREAM",), BOUND)
    assert not model.as_claimed(claim, model.judge(VIOLATED, claim))


@pytest.mark.parametrize(
    "output",
    [
        "",
        "pan: out of memory",
        WELL + "error: max search depth too small\n",
        WELL.replace("errors: 0", "errors: 1"),
        WELL + "Warning: Search not completed\n",
    ],
)
def test_half_a_search_is_no_verdict(output: str) -> None:
    with pytest.raises(ToolError, match="no verdict"):
        model.judge(output, HOLDS)


@pytest.mark.slow
@pytest.mark.skipif(any(preflight.find(need) is None for need in model.NEEDS), reason="no spin")
@pytest.mark.parametrize("claim", model.QUICK, ids=[claim.says for claim in model.QUICK])
def test_claims_hold(claim: Claim, tmp_path: Path) -> None:
    assert model.as_claimed(claim, model.verify(claim, tmp_path))
