"""What a regression run decides in filters, called as the functions they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ansible.test_decisions import load

regress = load("regress")
VARIANTS = [
    {"name": "stock", "artifact": "/s.json"},
    {"name": "expedited", "artifact": "/s.json", "rcu_expedited": True},
    {"name": "patched", "artifact": "/p.json"},
]
NAMES = ["stock", "expedited", "patched"]
BOTH = {"stock": "/s.json", "patched": "/p.json"}
NOT_BOTH = "regress_artifacts has stock, fixed; give it stock and patched"


@pytest.mark.parametrize(
    ("changed", "problems"),
    [
        ({}, []),
        ({"run": "2026-11-26.b"}, []),
        ({"artifacts": {}, "build": "6.12"}, []),
        ({"artifacts": {"stock": "/s", "fixed": "/f"}}, [NOT_BOTH]),
        ({"artifacts": BOTH | {"other": "/o"}}, ["regress_artifacts has stock, patched, other; give it"]),
        ({"artifacts": {}}, ["regress_artifacts has nothing; give it stock and patched"]),
        (
            {"artifacts": {}, "build": "6.12", "checks": True},
            ["regress_artifacts has nothing; give it stock and patched, as check mode builds nothing"],
        ),
        ({"dir": "there"}, ["regress_dir is 'there'; give an absolute path"]),
        (
            {"run": "a/b"},
            [
                "regress_run is 'a/b', and a directory's name; use letters, digits, dots, dashes and"
                " underscores"
            ],
        ),
        ({"run": "night\n", "dir": ""}, ["regress_dir is ''", "regress_run is 'night"]),
    ],
)
def test_each_problem_of_the_variables_is_named(changed: dict[str, Any], problems: list[str]) -> None:
    settings = {"artifacts": BOTH, "build": "", "checks": False, "dir": "/srv/regress", "run": ""}
    found = regress.regress_problems(settings | changed)
    assert len(found) == len(problems)
    assert all(text.startswith(problem) for text, problem in zip(found, problems, strict=True))


def test_what_was_suspect_is_timed_though_it_was_measured() -> None:
    suspects = regress.regress_suspects(VARIANTS, ["patched", "stock", "of another run"])
    assert suspects == ["stock", "patched"]
    assert regress.regress_known(["stock", "expedited"], suspects) == ["expedited"]


def test_each_boot_that_is_left_has_its_variant() -> None:
    left = regress.regress_turns(VARIANTS, ["patched", "expedited", "patched"])
    assert [one["artifact"] for one in left] == ["/p.json", "/s.json", "/p.json"]


@pytest.mark.parametrize(
    ("left", "found", "without"),
    [
        # Nothing was begun, as of a host that is down.
        (NAMES, [], NAMES),
        (["patched", "patched"], [], ["patched"]),
        # What it began and did not complete has a file of its own.
        (["expedited", "patched"], ["01-stock.jsonl", "02-expedited.jsonl"], ["patched"]),
        # A file of an earlier run is not of this failure.
        (["stock", "patched"], ["00-stock.jsonl"], ["stock", "patched"]),
        # All was measured, and the host did not come back.
        ([], ["01-stock.jsonl"], ["patched"]),
    ],
)
def test_a_failure_is_of_what_has_no_file(left: list[str], found: list[str], without: list[str]) -> None:
    files = {"found": [f"/raw/{name}" for name in found], "earlier": ["/raw/00-stock.jsonl"]}
    files["whole"] = ["/raw/01-stock.jsonl"]
    assert regress.regress_without("it broke", left, NAMES, files) == without
    assert regress.regress_without("", left, NAMES, files) == []


@pytest.mark.parametrize(
    ("known", "failures", "nothing"),
    [
        ([NAMES, NAMES], [], True),
        ([NAMES, NAMES[:2]], [], False),
        ([NAMES, []], [], False),
        ([NAMES, NAMES], ["it broke"], False),
    ],
)
def test_nothing_is_new_where_all_hosts_have_all(
    known: list[list[str]], failures: list[str], nothing: bool
) -> None:
    assert regress.regress_nothing_new(known, failures, VARIANTS) is nothing


def test_what_the_history_lacks_is_told_by_the_commands_that_ran_and_failed() -> None:
    answers = [{"skipped": True}, {"rc": 0, "stderr": "a note"}, {"rc": 3, "stderr": "cannot make x"}]
    assert regress.regress_unkept(answers) == "cannot make x"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("it broke", NAMES, [], False), "lpar1: failed: it broke"),
        (("", NAMES, [], False), "lpar1: measured stock, expedited, patched"),
        (("", ["patched"], NAMES[:2], True), "lpar1: could be measured"),
        (("", [], [], True), "lpar1: everything has been measured already"),
        (
            ("", [], NAMES[:2], False),
            "lpar1: nothing was timed: stock, expedited of these kernels were measured before",
        ),
    ],
)
def test_how_it_went_is_told(words: tuple[Any, ...], told: str) -> None:
    assert regress.regress_told("lpar1", *words) == told
