"""Whole runs of clocks.yml against the fake host: audit, apply, put back, and what is refused."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from clock_check.bundle import build_bundle
from hotplug_common.bundle import write as write_bundle
from tests.ansible.refusals import Case, Refusals, refuse
from tests.ansible.test_ab import OWNER, assert_fails
from tests.fakes.fake_lpar import BASE_PYTHON, FAKES, MACHINE, FakeLpar, files_below

# Modules are started, each in a Python of its own.
pytestmark = pytest.mark.timeout(300)

CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"
RECORD = "var/lib/hotplug-acceleration/clocksource.json"
INVARIANT = "tsc constant_tsc nonstop_tsc"


@pytest.fixture
def server(host: FakeLpar) -> FakeLpar:
    """A fake x86 server with three clocksources, and a bundle whose probe is a fake one."""
    become_server(host)
    return host


def become_server(host: FakeLpar) -> None:
    """Make it a server, with variables for a short audit."""
    host.put(f"{CLOCKSOURCE}/current_clocksource", "tsc")
    host.put(f"{CLOCKSOURCE}/available_clocksource", "tsc hpet acpi_pm ")
    host.put("proc/cpuinfo", f"processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: {INVARIANT}")
    host.put("proc/sys/kernel/arch", "x86_64")
    host.put("sys/devices/system/cpu/possible", "0-15")
    host.put("dev/kmsg", "6,0,0,-;Linux version 6.12")
    probe = f"#!{BASE_PYTHON} -IS\nROOT = {str(host.root)!r}\n{(FAKES / 'probe.py').read_text()}"
    bundle = host.work / "clock-check.pyz"
    write_bundle(bundle, build_bundle(probe.encode()))
    host.variables |= {
        "clocks_results_dir": str(host.results),
        "clocks_bundles": {MACHINE: str(bundle)},
        "clocks_settle": 0,
    }


def current(host: FakeLpar) -> str:
    return host.get(f"{CLOCKSOURCE}/current_clocksource")


def record(host: FakeLpar) -> dict[str, str]:
    found: dict[str, str] = json.loads(host.get(RECORD))
    return found


def audit(host: FakeLpar, name: str = "fake") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((host.results / f"audit/{name}.json").read_text())
    return found


def again(host: FakeLpar) -> None:
    """Make room for another audit."""
    shutil.rmtree(host.results, ignore_errors=True)


@pytest.mark.slow
def test_an_audit_leaves_results_and_a_table_and_nothing_on_the_host(server: FakeLpar) -> None:
    before = files_below(server.root)

    result = server.play("clocks.yml", clocks_iterations=1, clocks_threads="1,4", clocks_calls=5000)

    assert result.code == 0, result.output
    assert files_below(server.root) == before
    assert list((server.work / "tmp").iterdir()) == []
    raw = sorted((server.results / "raw/fake").iterdir())
    assert [path.name for path in raw] == ["order.jsonl", "scale.jsonl"]
    lines = [json.loads(line) for path in raw for line in path.read_text().splitlines()]
    assert [line["operation"] for line in lines if line["record"] == "iteration"] == [
        "order/vdso/16-threads",
        "order/syscall/16-threads",
        *(f"scale/{path}/{n}" for path in ("vdso", "syscall") for n in ("1-thread", "4-threads")),
    ]
    found = audit(server)
    assert found["measured"][0]["violations"] == 0
    assert found["recommendation"]["clocksource"] == "tsc"
    assert (found["host"]["emulated"], found["applied"]) == (False, None)
    table = (server.results / "clocks.md").read_text()
    assert "1 of 1 hosts use the clocksource they should" in table
    assert (
        "| fake | 6.12-default x86_64 | none | tsc | hpet acpi_pm | yes | 0 | 0.025 | 0.025 | 0 | - | tsc |"
        in table
    )
    assert json.loads((server.results / "clocks.json").read_text())["hosts"] == [{"name": "fake", **found}]
    assert "fake uses tsc" in result.flat


@pytest.mark.slow
def test_many_hosts_are_in_one_table_without_those_that_failed(server: FakeLpar) -> None:
    server.hosts = {name: {"ansible_connection": "local"} for name in ("broken", "db1.example", "web1")}
    server.hosts["broken"]["ansible_python_interpreter"] = "/nowhere/python3"

    result = server.play("clocks.yml", clocks_measure=False, ab_emulated=True)

    assert_fails(result, "/nowhere/python3")
    rows = json.loads((server.results / "clocks.json").read_text())["hosts"]
    assert [(row["name"], row["measured"], row["host"]["emulated"]) for row in rows] == [
        ("db1.example", [], True),
        ("web1", [], True),
    ]
    assert list((server.results / "raw/web1").iterdir()) == []


@pytest.mark.slow
def test_a_clock_that_goes_backwards_is_in_the_audit_and_the_recommended_one_is_applied(
    server: FakeLpar,
) -> None:
    server.put("probe-fault", "backwards")

    result = server.play("clocks.yml", clocks_apply="recommended", clocks_threads="1")

    assert result.code == 0, result.output
    assert current(server) == "hpet"
    found = audit(server)
    assert found["measured"][0]["violations"] == 3
    assert (
        "not tsc: order/vdso/16-threads: 3 of 1000000 calls returned less"
        in found["recommendation"]["reason"]
    )
    assert found["applied"] == {"before": "tsc", "now": "hpet"}
    assert "1 of 1 hosts use the clocksource they should" in (server.results / "clocks.md").read_text()


@pytest.mark.slow
def test_apply_and_put_back(server: FakeLpar) -> None:
    quick = {"clocks_measure": False}

    result = server.play("clocks.yml", clocks_apply="hpet", **quick)

    assert result.code == 0, result.output
    assert current(server) == "hpet"
    first = record(server)
    assert (first["before"], first["applied"]) == ("tsc", "hpet")
    assert first["boot_id"] == server.get("proc/sys/kernel/random/boot_id")
    assert [path.name for path in server.staging.iterdir()] == ["clocksource.json"]
    assert audit(server)["applied"] == {"before": "tsc", "now": "hpet"}
    assert "fake uses hpet" in result.flat

    # Again: nothing to change, and what was there first stays noted.
    again(server)
    result = server.play("clocks.yml", clocks_apply="hpet", **quick)
    assert result.code == 0, result.output
    assert (current(server), record(server), audit(server)["applied"]) == ("hpet", first, None)

    # Another: still the first one comes back.
    again(server)
    result = server.play("clocks.yml", clocks_apply="acpi_pm", **quick)
    assert result.code == 0, result.output
    assert (current(server), record(server)["before"]) == ("acpi_pm", "tsc")

    result = server.play("clocks.yml", clocks_restore=True, clocks_results_dir="")
    assert result.code == 0, result.output
    assert (current(server), server.staging.exists()) == ("tsc", False)
    assert "fake uses tsc" in result.flat

    before = files_below(server.root)
    result = server.play("clocks.yml", clocks_restore=True, clocks_results_dir="")
    assert result.code == 0, result.output
    assert files_below(server.root) == before


@pytest.mark.slow
def test_check_mode_says_what_would_be_switched_and_changes_nothing(server: FakeLpar) -> None:
    before = files_below(server.root)

    result = server.play("clocks.yml", "--check", clocks_apply="hpet")
    assert result.code == 0, result.output
    assert "fake uses tsc of tsc hpet acpi_pm" in result.flat
    assert "fake: tsc would be switched to hpet" in result.flat
    assert "check mode: nothing was changed" in result.flat
    nothing = server.play("clocks.yml", "--check", clocks_apply="tsc")
    assert "fake: tsc is in use already" in nothing.flat
    assert result.changed() == nothing.changed() + 1
    result = server.play("clocks.yml", "--check", clocks_apply="recommended")
    assert result.code == 0, result.output
    assert "would audit, and apply what the audit recommends" in result.flat
    assert_fails(server.play("clocks.yml", "--check", clocks_apply="hpte"), "no clocksource hpte now")

    assert files_below(server.root) == before
    assert not server.results.exists()


@pytest.mark.slow
def test_check_mode_says_what_would_be_put_back(server: FakeLpar) -> None:
    applied(server, "hpet", before="tsc")
    before = files_below(server.root)

    result = server.play("clocks.yml", "--check", clocks_restore=True)

    assert result.code == 0, result.output
    assert "fake: hpet would be switched to tsc" in result.flat
    assert files_below(server.root) == before


def applied(host: FakeLpar, name: str, *, before: str, boot_id: str | None = None) -> None:
    """Leave the fake host as clocks.yml does that has applied a clocksource."""
    boot_id = boot_id or host.get("proc/sys/kernel/random/boot_id")
    host.put(f"{CLOCKSOURCE}/current_clocksource", f"{name}")
    host.put(RECORD, json.dumps({"before": before, "applied": name, "boot_id": boot_id, "owner": "me"}))


@pytest.mark.slow
def test_a_refused_switch_leaves_the_host_as_found_and_the_audit_is_kept(server: FakeLpar) -> None:
    before = files_below(server.root)

    result = server.play("clocks.yml", clocks_apply="hpte", clocks_measure=False)

    assert_fails(
        result,
        "fake: the clocksource could not be switched to hpte: this kernel has no clocksource hpte now, it has"
        " tsc, hpet, acpi_pm",
        "The clocksource is tsc, as it was",
    )
    assert files_below(server.root) == before
    assert audit(server)["applied"] is None
    assert (server.results / "clocks.md").exists()


@pytest.mark.slow
def test_an_earlier_switch_stays_when_the_next_one_is_refused(server: FakeLpar) -> None:
    applied(server, "hpet", before="tsc")
    before = files_below(server.root)

    assert_fails(
        server.play("clocks.yml", clocks_apply="hpte", clocks_measure=False),
        "The clocksource is hpet, as it was",
    )

    assert files_below(server.root) == before


@pytest.mark.slow
def test_a_clocksource_that_the_kernel_leaves_again_is_put_back(server: FakeLpar) -> None:
    with kernel_that_leaves(server, "hpet", to="acpi_pm"):
        result = server.play("clocks.yml", clocks_apply="hpet", clocks_measure=False, clocks_settle=3)

    assert_fails(result, "the kernel left hpet for acpi_pm within 3 s", "The clocksource is tsc, as it was")
    assert (current(server), server.staging.exists()) == ("tsc", False)


@contextmanager
def kernel_that_leaves(host: FakeLpar, name: str, *, to: str) -> Iterator[None]:
    """Switch the fake host's clocksource as a kernel's watchdog does."""
    file, over = host.root / CLOCKSOURCE / "current_clocksource", threading.Event()

    def watch() -> None:
        # Long enough after the write for its own check to have passed.
        while not over.wait(0.5):
            if file.read_text() == name:
                file.write_text(to)

    watchdog = threading.Thread(target=watch)
    watchdog.start()
    try:
        yield
    finally:
        over.set()
        watchdog.join()


@pytest.mark.slow
def test_where_nothing_can_be_recommended_nothing_is_applied(server: FakeLpar) -> None:
    server.put(f"{CLOCKSOURCE}/available_clocksource", "tsc ")
    server.put("dev/kmsg", "6,0,0,-;tsc: Marking TSC unstable due to clocksource watchdog")

    result = server.play("clocks.yml", clocks_apply="recommended", clocks_measure=False)

    assert_fails(
        result, "no clocksource can be recommended: nothing here can be relied on: tsc: the kernel logged"
    )
    assert (current(server), server.staging.exists()) == ("tsc", False)


@pytest.mark.slow
def test_rollback_puts_back_what_a_run_that_died_has_switched(server: FakeLpar) -> None:
    applied(server, "hpet", before="tsc")
    lock = OWNER | {"default": {}}
    server.put("var/lib/hotplug-acceleration/lock.json", json.dumps(lock))

    again_held = server.play("clocks.yml", clocks_restore=True)
    assert_fails(
        again_held, "root@desk has been using this host", "rollback.yml --limit fake -e ab_break_lock=t"
    )
    assert current(server) == "hpet"

    result = server.play("rollback.yml", "--check", ab_break_lock=True)
    assert "and to clocksource tsc; nothing was changed" in result.flat
    assert current(server) == "hpet"
    result = server.play("rollback.yml", ab_break_lock=True)
    assert result.code == 0, result.output
    assert "with clocksource tsc" in result.flat
    assert (current(server), server.staging.exists()) == ("tsc", False)
    assert ["systemctl", "--no-block", "reboot"] not in server.commands()


@pytest.mark.slow
def test_a_record_of_another_boot_is_void(server: FakeLpar) -> None:
    applied(server, "tsc", before="hpet", boot_id="another")

    result = server.play("rollback.yml")

    assert result.code == 0, result.output
    assert (current(server), server.staging.exists()) == ("tsc", False)


@pytest.mark.slow
def test_what_somebody_else_changed_is_left_alone(server: FakeLpar) -> None:
    applied(server, "hpet", before="tsc")
    server.put(f"{CLOCKSOURCE}/current_clocksource", "acpi_pm")

    result = server.play("clocks.yml", clocks_restore=True)

    assert_fails(result, "says acpi_pm, not the hpet that was applied", "left alone (before, it said tsc)")
    assert current(server) == "acpi_pm"
    assert sorted(path.name for path in server.staging.iterdir()) == ["clocksource.json"]


@pytest.mark.slow
def test_a_measurement_that_fails_is_told_in_its_own_words(server: FakeLpar) -> None:
    server.put("probe-fault", "fails")

    result = server.play("clocks.yml", clocks_apply="hpet")

    assert_fails(
        result,
        "the clock could not be measured with order: clock-check: error: clock-probe failed: out of luck",
    )
    assert current(server) == "tsc"
    assert list((server.work / "tmp").iterdir()) == []


@pytest.mark.slow
def test_the_bundle_is_made_where_none_is_given(server: FakeLpar) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler here")
    del server.variables["clocks_bundles"]

    result = server.play("clocks.yml", clocks_measure=False)

    assert result.code == 0, result.output
    assert (server.results / f"clock-check-{MACHINE}.pyz").exists()


def held(host: FakeLpar) -> None:
    host.put("var/lib/hotplug-acceleration/lock.json", json.dumps(OWNER))


def audited(host: FakeLpar) -> None:
    earlier = host.results / "audit/audited.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("precious")


REFUSED = [
    Case("held", ["root@desk has been using this host since 2026-11-20T08:00:00Z"], prepare=held),
    Case("audited", ["{work}/results holds an earlier audit of {host}; move it away"], prepare=audited),
    Case(
        "variables",
        [
            "clocks_results_dir is 'results'; give an absolute path",
            "clocks_apply is 'hpet,tsc'; name one clocksource, or recommended",
            "clocks_calls is 0",
            "clocks_iterations is 0",
            "clocks_seconds is 0",
            "clocks_bundles names /nowhere/c.pyz, which does not exist",
        ],
        {
            "clocks_results_dir": "results",
            "clocks_apply": "hpet,tsc",
            "clocks_restore": False,
            "clocks_calls": 0,
            "clocks_iterations": 0,
            "clocks_seconds": 0,
            "clocks_bundles": {"x86_64": "/nowhere/c.pyz"},
        },
    ),
    Case("both", ["are both set; use one of them"], {"clocks_apply": "hpet", "clocks_restore": True}),
]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """One run that refuses all hosts."""
    return refuse(tmp_path_factory.mktemp("refusals"), "clocks.yml", REFUSED, become_server)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused(refusals: Refusals, case: Case) -> None:
    """Neither the host nor what there is of earlier results is touched."""
    refusals.check(case)
