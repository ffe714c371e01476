"""Whole runs of regress.yml against the fake host: the matrix, the history, what fails, and what goes on."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from hotplug_host import clock
from tests.ansible.test_ab import OWNER, assert_back, assert_fails, loads
from tests.fakes.fake_lpar import DEFAULT_RELEASE, NOWHERE, FakeLpar, files_below
from tests.samples.histories import NOISES, entry, nights
from tests.samples.histories import write as write_history

# Three boots each, and the tools that judge take seconds to start.
pytestmark = pytest.mark.timeout(600)

MATRIX = ["stock", "expedited", "patched"]


@pytest.fixture
def lpar(host: FakeLpar) -> FakeLpar:
    """A fake host, and variables for a regression run."""
    del host.variables["ab_results_dir"]
    variants = host.variables.pop("ab_variants")
    host.variables |= {
        "regress_artifacts": {variant["name"]: variant["artifact"] for variant in variants},
        "regress_dir": str(host.results),
        "regress_run": "night",
    }
    return host


def store(host: FakeLpar) -> list[dict[str, Any]]:
    """The runs in the history, in the order in which they were added."""
    path = host.results / "history/runs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def raw(host: FakeLpar, name: str = "fake") -> list[str]:
    return sorted(path.name for path in (host.results / "runs/night/raw" / name).iterdir())


def reasons(host: FakeLpar, name: str = "fake") -> dict[str, str]:
    """Why variants of a host failed, by variant."""
    return {run["variant"]: run["failed"] for run in store(host) if run["failed"] and run["host"] == name}


@pytest.mark.slow
def test_what_is_left_of_the_matrix_is_measured_kept_and_judged(lpar: FakeLpar) -> None:
    """After a run that ended before its last kernel."""
    for number, name in enumerate(MATRIX[:2], start=1):
        lpar.put("proc/sys/kernel/osrelease", "6.12-stock")
        lpar.put("sys/kernel/rcu_expedited", str(int(name == "expedited")))
        lpar.time(lpar.results / f"runs/night/raw/fake/{number:02}-{name}.jsonl", name)
    lpar.put("proc/sys/kernel/osrelease", DEFAULT_RELEASE)
    lpar.put("sys/kernel/rcu_expedited", "0")

    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert raw(lpar) == [f"{n:02}-{name}.jsonl" for n, name in enumerate(MATRIX, start=1)]
    assert [(run["variant"], run["kernel"], run["failed"]) for run in store(lpar)] == [
        ("stock", "6.12-stock", None),
        ("expedited", "6.12-stock", None),
        ("patched", "6.12-patched", None),
    ]
    assert len(loads(lpar)) == 1
    assert "no series has enough history yet (hotplug-timer history check ends with 9)" in result.flat
    assert (lpar.results / "trend/history.html").exists()
    assert_back(lpar)


@pytest.mark.slow
def test_the_whole_matrix_is_measured_kept_and_judged(lpar: FakeLpar) -> None:
    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert raw(lpar) == [f"{n:02}-{name}.jsonl" for n, name in enumerate(MATRIX, start=1)]
    runs = store(lpar)
    assert [(run["host"], run["variant"], run["kernel"], run["failed"]) for run in runs] == [
        ("fake", "stock", "6.12-stock", None),
        ("fake", "expedited", "6.12-stock", None),
        ("fake", "patched", "6.12-patched", None),
    ]
    assert [run["conditions"]["rcu_expedited"] for run in runs] == [False, True, False]
    assert {tuple(one["operation"] for one in run["results"]) for run in runs} == {("smt=off", "smt=on")}
    assert len(loads(lpar)) == 3
    assert "no series has enough history yet (hotplug-timer history check ends with 9)" in result.flat
    trend = lpar.results / "trend"
    assert sorted(path.name for path in trend.iterdir()) == [
        "history-junit.xml",
        "history-kcidb.json",
        "history.html",
        "history.json",
        "history.prom",
    ]
    assert JUnitXml.fromfile(str(trend / "history-junit.xml")).tests == 6
    assert len(json.loads((trend / "history-kcidb.json").read_text())["tests"]) == 6
    assert (trend / "history.prom").read_text().count("hotplug_timer_runs{") == 6
    assert_back(lpar)

    # What is built anew is measured again, and nothing else.
    lpar.artifact("patched", release="6.12-patched-2", boots="6.12-patched-2")

    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert raw(lpar)[3:] == ["04-patched.jsonl"]
    assert [run["kernel"] for run in store(lpar)][3:] == ["6.12-patched-2"]


@pytest.mark.slow
def test_the_newest_kernels_are_built_and_timed_once(lpar: FakeLpar) -> None:
    del lpar.variables["regress_artifacts"]
    lpar.variables |= {"build_tool": str(lpar.build_tool()), "regress_build": 7.2}
    commits = {"build_tree": "/srv/linux", "build_range": "v7.2..topic"}
    for name in ("stock", "patched"):
        lpar.packed(name)

    result = lpar.play("regress.yml", "--limit", "fake", **commits)

    assert result.code == 0, result.output
    calls = [json.loads(line) for line in (lpar.work / "calls").read_text().splitlines()]
    built = [call for call in calls if call[0] == "build-kernel"]
    assert [(call[call.index("--line") + 1], call[call.index("--variant") + 1]) for call in built] == [
        ("7.2", "stock"),
        ("7.2", "patched"),
    ]
    assert ["--commits" in call for call in built] == [False, True], "stock has no patches"
    assert built[1][built[1].index("--commits") + 1 :][:2] == [*commits.values()]
    assert [(run["variant"], run["kernel"]) for run in store(lpar)] == [
        ("stock", "6.12-stock"),
        ("expedited", "6.12-stock"),
        ("patched", "6.12-patched"),
    ]
    nothing = lpar.results / "nothing-timed"
    assert not nothing.exists()
    commands, kept = lpar.commands(), store(lpar)

    # The next night: nothing is new, and what the history says of older runs is no failure of this one.
    result = lpar.play("regress.yml", regress_run="next")

    assert result.code == 0, result.output
    assert "fake: nothing was timed: stock, expedited, patched of these kernels were measured" in result.flat
    assert "every host has measured the newest kernels, 6.12-stock and 6.12-patched" in result.flat
    assert nothing.read_text().split() == ["stock=6.12-stock", "expedited=6.12-stock", "patched=6.12-patched"]
    assert (lpar.commands(), store(lpar)) == (commands, kept)

    # A patch has changed.
    lpar.packed("patched", release="6.12-patched-2", boots="6.12-patched-2")

    result = lpar.play("regress.yml", regress_run="third")

    assert result.code == 0, result.output
    assert "fake: measured patched" in result.flat
    assert [(run["variant"], run["kernel"]) for run in store(lpar)[3:]] == [("patched", "6.12-patched-2")]

    assert_fails(
        lpar.play("regress.yml", "--check"), "give it stock and patched, as check mode builds nothing"
    )


def suspect(host: FakeLpar) -> None:
    """A history of all variants, of the kernels there are now, that ends with a suspect night of patched."""
    count, now = 31, datetime.now(UTC)
    for name, last in (("stock", 1.0), ("expedited", 1.0), ("patched", 1.2)):
        seconds = nights(1, NOISES["independent"], count=count, step_at=count - 1, step=last)
        runs = [
            replace(
                entry(night, one, variant=name, host="fake"),
                started=clock.text(now - timedelta(days=count - night)),
                kernel="6.12-patched" if name == "patched" else "6.12-stock",
            )
            for night, one in enumerate(seconds)
        ]
        write_history(host.results / "history", runs, append=True)


@pytest.mark.slow
def test_what_was_suspect_last_night_is_booted_four_times_though_it_was_measured(lpar: FakeLpar) -> None:
    """Of kernels that are built, each is else timed once."""
    suspect(lpar)
    del lpar.variables["regress_artifacts"]
    lpar.variables |= {"build_tool": str(lpar.build_tool()), "regress_build": 7.2}
    for name in ("stock", "patched"):
        lpar.packed(name)

    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert raw(lpar) == [f"{number:02}-patched.jsonl" for number in (1, 2, 3, 4)]
    assert [(run["variant"], run["failed"]) for run in store(lpar)[93:]] == [("patched", None)] * 4
    assert len({run["boot"] for run in store(lpar)[93:]}) == 4
    assert len(loads(lpar)) == 4
    assert_back(lpar)
    commands, kept = lpar.commands(), store(lpar)

    # Tonight's runs do not change what was suspect last night.
    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert "fake: nothing was timed: stock, expedited of these kernels were measured before" in result.flat
    assert (lpar.commands(), store(lpar)) == (commands, kept)


@pytest.mark.slow
def test_boots_that_were_to_confirm_a_night_and_failed_are_told(lpar: FakeLpar) -> None:
    suspect(lpar)
    for number, name in enumerate((*MATRIX, "patched"), start=1):
        lpar.put("proc/sys/kernel/osrelease", "6.12-patched" if name == "patched" else "6.12-stock")
        lpar.put("sys/kernel/rcu_expedited", str(int(name == "expedited")))
        lpar.time(lpar.results / f"runs/night/raw/fake/{number:02}-{name}.jsonl", name)
    lpar.put("proc/sys/kernel/osrelease", DEFAULT_RELEASE)
    lpar.put("sys/kernel/rcu_expedited", "0")

    result = lpar.play("regress.yml", "--check")

    assert "would measure patched, patched, 2 iterations of smt=off smt=on each" in result.flat

    lpar.artifact("patched", boots="6.12-old")

    assert_fails(lpar.play("regress.yml"), "wanted 6.12-patched with patched variant, found 6.12-old")
    assert len(raw(lpar)) == 4
    assert set(reasons(lpar)) == {"patched"}


@pytest.mark.slow
def test_a_run_goes_on_where_it_ended(lpar: FakeLpar) -> None:
    lpar.put("timer-fault", "fails")
    lpar.put("timer-fault-of", "expedited")

    result = lpar.play("regress.yml")

    assert_fails(result, "the newest run of a host and variant failed", "ends with 5", "left CPUs 3,5 online")
    assert raw(lpar) == ["01-stock.jsonl", "02-expedited.jsonl"]
    assert set(reasons(lpar)) == {"expedited", "patched"}
    assert reasons(lpar)["expedited"] == "failed", "the result file's own reason"
    assert "variant 'expedited' did not complete" in reasons(lpar)["patched"]
    assert_back(lpar)
    (lpar.root / "timer-fault").unlink()
    first = (lpar.results / "runs/night/raw/fake/01-stock.jsonl").read_bytes()

    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert "fake: measured expedited, patched" in result.flat
    assert raw(lpar) == ["01-stock.jsonl", "02-expedited.jsonl", "03-expedited.jsonl", "04-patched.jsonl"]
    assert (lpar.results / "runs/night/raw/fake/01-stock.jsonl").read_bytes() == first
    assert Counter((run["variant"], run["failed"] is None) for run in store(lpar)) == {
        ("stock", True): 1,
        ("expedited", False): 1,
        ("patched", False): 1,
        ("expedited", True): 1,
        ("patched", True): 1,
    }
    commands, kept = lpar.commands(), store(lpar)

    result = lpar.play("regress.yml")

    assert result.code == 0, result.output
    assert "fake: everything has been measured already" in result.flat
    assert (lpar.commands(), store(lpar)) == (commands, kept)


@pytest.mark.slow
def test_a_host_that_is_down_is_recorded_and_the_others_are_measured(lpar: FakeLpar) -> None:
    """Hosts are named as in the inventory, since one that is down cannot be asked; runs by their day."""
    lpar.hosts = {"adown": NOWHERE, "lpar17.example.com": {"ansible_connection": "local"}}
    del lpar.variables["regress_run"]

    result = lpar.play("regress.yml")

    assert_fails(result, "adown: failed: adown: the state of the host cannot be read", "ends with 5")
    assert set(reasons(lpar, "adown")) == set(MATRIX)
    assert all("the state of the host cannot be read" in reason for reason in reasons(lpar, "adown").values())
    measured = [(run["host"], run["variant"]) for run in store(lpar) if not run["failed"]]
    assert measured == [("lpar17.example.com", name) for name in MATRIX]
    (folder,) = lpar.results.glob("runs/*/raw/lpar17.example.com")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", folder.parents[1].name)
    assert "adown" in (lpar.results / "trend/history.html").read_text()
    metrics = (lpar.results / "trend/history.prom").read_text()
    assert 'newest_run_failed{host="adown",variant="patched"} 1.0' in metrics
    assert 'newest_run_failed{host="lpar17.example.com",variant="patched"} 0.0' in metrics
    assert JUnitXml.fromfile(str(lpar.results / "trend/history-junit.xml")).errors == 3
    statuses = [
        test["status"]
        for test in json.loads((lpar.results / "trend/history-kcidb.json").read_text())["tests"]
    ]
    assert Counter(statuses) == {"MISS": 3, "DONE": 6}
    assert_back(lpar)


@pytest.mark.slow
def test_a_host_that_another_run_holds_is_left_alone_and_recorded(lpar: FakeLpar) -> None:
    lpar.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))

    result = lpar.play("regress.yml", regress_verdict_fails=False)

    assert result.code == 0, "whoever asks the history afterwards gets the code from there"
    assert "the newest run of a host and variant failed" in result.flat
    assert "root@desk has been using this host since 2026-11-20T08:00:00Z" in reasons(lpar)["stock"]
    assert set(reasons(lpar)) == set(MATRIX)
    assert not lpar.commands()
    assert json.loads(lpar.get("var/lib/hotplug-acceleration/lock.json")) == OWNER


@pytest.mark.slow
def test_a_boot_that_fails_is_that_variants_and_what_came_after_it(lpar: FakeLpar) -> None:
    lpar.artifact("patched", boots="6.12-old")

    result = lpar.play("regress.yml")

    assert_fails(result, "wanted 6.12-patched with patched variant, found 6.12-old")
    assert raw(lpar) == ["01-stock.jsonl", "02-expedited.jsonl"]
    assert set(reasons(lpar)) == {"patched"}
    assert f"The host is back on {DEFAULT_RELEASE}" in reasons(lpar)["patched"]
    assert_back(lpar)


@pytest.mark.slow
def test_a_host_that_was_left_changed_after_the_last_timing_is_a_failure(lpar: FakeLpar) -> None:
    lpar.put("fault", "reboot-ignored")

    result = lpar.play("regress.yml")

    assert_fails(result, "THE HOST WAS LEFT CHANGED", "ends with 5")
    assert len(raw(lpar)) == 3
    assert set(reasons(lpar)) == {"patched"}
    assert "rollback.yml --limit fake -e ab_break_lock=true" in reasons(lpar)["patched"]
    assert lpar.staging.exists(), "the lock stays"


@pytest.mark.slow
def test_check_mode_changes_nothing_and_says_what_a_run_would_do(lpar: FakeLpar) -> None:
    before = files_below(lpar.root)

    result = lpar.play("regress.yml", "--check")

    assert result.code == 0, result.output
    assert "would measure stock, expedited, patched, 2 iterations of smt=off smt=on each" in result.flat
    assert "fake: could be measured" in result.flat
    assert f"a run would add to {lpar.results}/history" in result.flat
    assert files_below(lpar.root) == before
    assert not lpar.results.exists()

    lpar.hosts["gone"] = NOWHERE

    assert_fails(lpar.play("regress.yml", "--check"), "gone: the state of the host cannot be read")
    assert not lpar.results.exists()


@pytest.mark.slow
def test_bad_variables_are_all_named_and_nobodys_failure(lpar: FakeLpar) -> None:
    result = lpar.play(
        "regress.yml",
        regress_artifacts={"stock": "/s", "fixed": "/f"},
        regress_dir="there",
        regress_run="a/b",
    )

    assert_fails(
        result,
        "regress_artifacts has stock, fixed; give it stock and patched",
        "regress_dir is 'there'; give an absolute path",
        "regress_run is 'a/b'",
    )
    lpar.hosts["zother"] = {"ansible_connection": "local"}
    Path(lpar.variables["regress_artifacts"]["patched"]).unlink()
    assert_fails(lpar.play("regress.yml"), "variant 'patched'", "does not exist on the controller")
    assert (store(lpar), lpar.commands()) == ([], [])


@pytest.mark.slow
def test_a_history_that_cannot_be_written_fails_whatever_the_verdict(lpar: FakeLpar) -> None:
    lpar.results.mkdir()
    (lpar.results / "history").write_text("in the way")

    result = lpar.play("regress.yml", regress_verdict_fails=False)

    assert_fails(result, "hotplug-timer: error: cannot make")
    assert raw(lpar)[2:] == ["03-patched.jsonl"], "what was measured is kept"
    (lpar.results / "history").unlink()
    assert lpar.play("regress.yml").code == 0
    assert [run["variant"] for run in store(lpar)] == MATRIX
