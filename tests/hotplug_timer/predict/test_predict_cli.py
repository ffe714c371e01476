"""`predict` from a file of `measure-costs` to what it prints, and what it refuses."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hotplug_host.errors import ExitCode
from hotplug_timer import cli
from hotplug_timer.predict.patched import SPREAD, STOCK_SPREAD
from tests.samples.resultfiles import Record, end, iteration, run_record, write

SWITCHED = (1, 2, 3, 5, 6, 7, 9, 10)
OPERATIONS = {way: f"cpus=1-3,5-7,9-10:{way}" for way in ("off", "on")}
CPUS = {"off": ("0-15", "0,4,8,11-15"), "on": ("0,4,8,11-15", "0-15")}
COUNTS = {
    "off": {"synchronize_rcu": 17, "stop_machine": 8, "domain_rebuild": 8, "synchronize_rcu_expedited": 0},
    "on": {"synchronize_rcu": 9, "stop_machine": 0, "domain_rebuild": 8, "synchronize_rcu_expedited": 0},
}
#: Of all calls together, with normal grace periods.
DURATIONS = {
    "off": {
        "synchronize_rcu": 0.85,
        "stop_machine": 0.4,
        "domain_rebuild": 0.08,
        "takedown_cpu": 0.48,
        "take_cpu_down": 0.04,
    },
    "on": {
        "synchronize_rcu": 0.36,
        "stop_machine": 0.0,
        "domain_rebuild": 0.08,
        "takedown_cpu": 0.0,
        "take_cpu_down": 0.0,
    },
}
#: With normal grace periods, and with expedited ones: STATES takes 1.56 and 0.792 s of these.
TIMED = {"0": {"off": 2.4, "on": 1.2}, "1": {"off": 1.6, "on": 0.8}}


class Callback(NamedTuple):
    """A callback of a CPU that goes: its step, how many ms it takes, and those that run inside it."""

    step: int
    name: str
    ms: float
    inside: tuple["Callback", ...] = ()


PARK = Callback(150, "smpboot_park_threads", 10)
STATES = {
    "off": (
        Callback(236, "cpuhp_kick_ap_work", 105, (Callback(235, "sched_cpu_deactivate", 60), PARK)),
        Callback(145, "takedown_cpu", 60),
        Callback(17, "pseries_cpuidle_cpu_dead", 30),
    ),
    "on": (
        Callback(84, "bringup_cpu", 30),
        Callback(236, "cpuhp_kick_ap_work", 69, (Callback(199, "pseries_cpuidle_cpu_online", 50),)),
    ),
}


def events(cpu: int, now: float, callbacks: tuple[Callback, ...]) -> Iterator[tuple[float, str]]:
    """Yield times in ms and texts of a CPU's events."""
    for one in callbacks:
        yield now, f"cpuhp_enter: cpu: {cpu:04d} target: 145 step: {one.step:3d} ({one.name})"
        yield from events(cpu, now, one.inside)
        now += one.ms
        yield now, f"cpuhp_exit:  cpu: {cpu:04d}  state: {one.step - 1:3d} step: {one.step:3d} ret: 0"


def text_of(callbacks: tuple[Callback, ...]) -> str:
    """The kernel's text of one CPU's callbacks after the other's."""
    whole = sum(one.ms for one in callbacks)
    found = [
        f"         cpuhp/{cpu}-2{cpu}      [{cpu:03d}] ..... {100 + ms / 1e3:.6f}: {text}"
        for at, cpu in enumerate(SWITCHED)
        for ms, text in events(cpu, at * whole, callbacks)
    ]
    return "\n".join(["# tracer: nop", *found]) + "\n"


def run(run_id: str, minute: int, expedited: str) -> list[Record]:
    first = run_record(run_id, minute=minute, boot_id="boot-1", emulated=False)
    first["rcu"] = {"rcu_expedited": expedited}
    first["settings"]["operations"] = list(OPERATIONS.values())
    first["detail"] |= {"traces": ["states"], "via": "cpu-online", "hotplug_states": {"190": "vendor:online"}}
    lines = [first]
    common: dict[str, Any] = {"driver": "cpu-online", "path": "per-cpu"}
    for way, operation in OPERATIONS.items():
        more = {**common, "cpus_before": CPUS[way][0], "cpus_after": CPUS[way][1]}
        more["cpus_expected"] = more["cpus_after"]
        more["started"] = f"2026-11-20T08:{minute:02d}:01.000Z"
        seconds = TIMED[expedited][way]
        counts, durations = dict(COUNTS[way]), dict(DURATIONS[way])
        if expedited == "1":
            counts["synchronize_rcu_expedited"] = counts["synchronize_rcu"]
            durations["synchronize_rcu_expedited"] = 0.002 * counts["synchronize_rcu"]
        lines += [
            iteration(run_id, 1, operation, seconds, **more),
            iteration(run_id, 1, operation, None, **more, counts=counts, durations_s=durations),
        ]
        if expedited == "1":
            file = f"costs.{way}.states.txt"
            made = {"mode": "states", "file": file, "seconds": seconds, "lost_events": 0}
            lines.append(
                iteration(
                    run_id, 1, operation, None, **more, phase="traced", counts=None, counter=None, trace=made
                )
            )
    return [*lines, end(run_id)]


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    for way, callbacks in STATES.items():
        (tmp_path / f"costs.{way}.states.txt").write_text(text_of(callbacks))
    return write(tmp_path / "costs.jsonl", [*run("r1", 0, "0"), *run("r2", 5, "1")])


def predict(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main(["predict", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def facts(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    code, out, err = predict(capsys, *words, "--format", "json")
    assert code == ExitCode.OK, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_measured_machine_is_predicted(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, costs)
    assert (found["cpus"], found["toggled"], found["hindering_states"]) == (16, 14, [])
    # The callbacks, and a grace period of the lock each way.
    assert found["closure"] == pytest.approx((8 * 0.195 + 8 * 0.099 + 2 * 0.002) / (1.6 + 0.8))
    rows = {(row["operation"], row["kernel"]): row for row in found["predictions"]}
    assert [key[1] for key in rows] == [
        "6.12.117-stock-1a2b3c4d",
        "6.12.117-stock-1a2b3c4d, expedited",
        "patched",
        "patched, if firmware stops CPUs one at a time",
        "6.12.117-stock-1a2b3c4d",
        "6.12.117-stock-1a2b3c4d, expedited",
        "patched",
    ]
    assert [row["kind"] for row in found["predictions"]] == [
        *("stock", "expedited", "patched", "patched"),
        *("stock", "expedited", "patched"),
    ]
    high = STOCK_SPREAD * 14 * 0.1
    assert rows["smt=on", "6.12.117-stock-1a2b3c4d, expedited"]["high_s"] == pytest.approx(high)
    patched = rows["smt=off", "patched"]
    assert (patched["grace_periods"], patched["rendezvous"], patched["rebuilds"]) == (2, 1, 1)
    middle = 2 * 0.002 + 0.01 + (0.05 - 0.005) + 0.01 + 0.01 + 14 * (0.005 + 0.035)
    assert patched["high_s"] == pytest.approx(SPREAD * middle)
    assert patched["high_s"] / patched["low_s"] <= 6
    assert rows["smt=off", "6.12.117-stock-1a2b3c4d"]["high_s"] == pytest.approx(STOCK_SPREAD * 14 * 0.3)
    parts = {(part["direction"], part["name"]): part for part in found["parts"]}
    assert parts["off", "grace periods"]["one"] == pytest.approx(0.05)
    assert parts["on", "expedited grace periods"]["one"] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("sharing", "turn"),
    [
        ({"busy_slowdown": 9.0, "lpar_mode": None}, 0.005 / 9),
        ({"busy_slowdown": 9.0, "lpar_mode": "shared"}, 0.005 / 9),
        ({"busy_slowdown": 9.0, "lpar_mode": "dedicated"}, 0.005),
    ],
)
def test_turns_are_shorter_where_waiting_cpus_give_their_processors(
    costs: Path, capsys: pytest.CaptureFixture[str], sharing: Record, turn: float
) -> None:
    def change(lines: list[Record]) -> list[Record]:
        for line in lines:
            if line["record"] == "run":
                line["detail"] |= sharing
        return lines

    before = _high_of_off(facts(capsys, costs))
    _change(costs, change)
    after = _high_of_off(facts(capsys, costs))
    assert before - after == pytest.approx(SPREAD * 14 * (0.005 - turn))


def _high_of_off(found: dict[str, Any]) -> float:
    (row,) = [
        row for row in found["predictions"] if (row["operation"], row["kernel"]) == ("smt=off", "patched")
    ]
    return float(row["high_s"])


def test_what_is_printed_tells_in_one_sentence_what_it_rests_on(
    costs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = predict(capsys, costs)
    assert (code, err) == (ExitCode.OK, "")
    assert "14 of 16 CPUs, predicted from 8 of them; lower is better" in out
    last = out.splitlines()[-1]
    assert "not a 95% interval" in last
    assert "0.98 of the seconds of the same switches" in last
    assert last.count(". ") == 0


def test_a_state_that_holds_bulk_back_is_named(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vendor = Callback(190, "vendor_offline", 5)
    kick, *others = STATES["off"]
    more = (kick._replace(inside=(*kick.inside, vendor)), *others)
    costs.with_name("costs.off.states.txt").write_text(text_of(more))
    found = facts(capsys, costs)
    assert found["hindering_states"] == ["vendor:online"]
    rows = [row for row in found["predictions"] if row["operation"] == "smt=off"]
    assert [row["kernel"] for row in rows] == [
        "6.12.117-stock-1a2b3c4d",
        "6.12.117-stock-1a2b3c4d, expedited",
        "patched, CPUs one by one",
    ]
    assert rows[2]["high_s"] == pytest.approx(STOCK_SPREAD * 14 * 0.2)
    assert "because of vendor:online" in predict(capsys, costs)[1]


def test_other_chunks_and_other_numbers(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(capsys, costs, "--chunk", "4", "--toggled", "9")
    (patched,) = [
        row for row in found["predictions"] if (row["operation"], row["kernel"]) == ("smt=off", "patched")
    ]
    assert (patched["grace_periods"], patched["rendezvous"], patched["rebuilds"]) == (4, 3, 3)


def _change(costs: Path, change: Callable[[list[Record]], list[Record]]) -> None:
    lines = [json.loads(line) for line in costs.read_text().splitlines()]
    costs.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))


def _slower(lines: list[Record], factor: float = 1.3) -> list[Record]:
    for line in lines:
        if line.get("phase") == "traced":
            line["detail"]["trace"]["seconds"] *= factor
    return lines


def _details(name: str, value: Any) -> Callable[[list[Record]], list[Record]]:
    def change(lines: list[Record]) -> list[Record]:
        for line in lines:
            if line.get("phase") == "counted":
                line["detail"][name] = value(line["detail"][name])
        return lines

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_slower, "the pieces come to 0.76 of the seconds of their switches"),
        (lambda lines: _slower(lines, 0.8), "the pieces come to 1.23 of the seconds of their switches"),
        (
            _details("durations_s", lambda _: None),
            "the grace periods of cpus=1-3,5-7,9-10:off were not timed",
        ),
        (_details("counts", lambda found: {**found, "chunks": 1, "serial_chunks": 0}), "is a patched kernel"),
        (lambda lines: lines[: len(lines) // 2 + 1], "not a result of measure-costs that came to its end"),
        (lambda lines: [line for line in lines if line.get("phase") != "timed"], "was not timed"),
    ],
)
def test_what_does_not_hold_together_is_refused_in_one_line(
    costs: Path, capsys: pytest.CaptureFixture[str], change: Any, words: str
) -> None:
    _change(costs, change)
    code, out, err = predict(capsys, costs)
    assert (code, out) == (ExitCode.INPUT, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_trace_that_was_left_behind_is_asked_for(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs.with_name("costs.on.states.txt").unlink()
    code, _, err = predict(capsys, costs)
    assert code == ExitCode.INPUT
    assert "its trace costs.on.states.txt is not beside it" in err


@pytest.mark.parametrize("toggled", ["16", "99"])
def test_more_than_there_are_cannot_be_switched(
    costs: Path, capsys: pytest.CaptureFixture[str], toggled: str
) -> None:
    code, _, err = predict(capsys, costs, "--toggled", toggled)
    assert code == ExitCode.USAGE
    assert f"{toggled} of 16 CPUs cannot be switched" in err
