"""Predictions held against seconds: what is inside, what is too wide, and the files of both."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_qualify import figures, keeping
from kernel_qualify.judge import predictions
from kernel_qualify.judge.predictions import Run, Switch

STOCK = "6.12.118-stock-864de745"
PREDICTED: dict[str, Any] = {
    "kernel": STOCK,
    "cpus": 16,
    "predictions": [
        {"operation": f"smt={way}", "kernel": kernel, "low_s": low, "high_s": low * 5}
        for way, kernel, low in (
            ("off", STOCK, 1.0),
            ("off", "patched", 0.1),
            ("off", "patched, if firmware stops CPUs one at a time", 0.2),
            ("on", STOCK, 0.5),
            ("on", "patched", 0.05),
        )
    ],
}
RECORDS = [
    {"kind": "machine"},
    {"kind": "speed", "to": "off", "seconds": [0.2, 0.3, 0.9]},
    {"kind": "speed", "to": "on", "seconds": [0.1]},
]
SECONDS = {"stock": {"off": (2.0,), "on": (1.0,)}, "patched": predictions.seconds_of(RECORDS)}


def run() -> Run:
    releases = {"stock": STOCK, "patched": "6.12.118-patched-0b98aeb5"}
    return Run("6.12", "ppc64le", 2, 8, releases, predictions.switches(PREDICTED, SECONDS))


def test_rows_and_seconds_are_joined_by_kernel_and_direction() -> None:
    assert run().switches == (
        Switch("stock", "off", 1.0, 5.0, (2.0,)),
        Switch("stock", "on", 0.5, 2.5, (1.0,)),
        Switch("patched", "off", 0.1, 0.5, (0.2, 0.3, 0.9)),
        Switch("patched", "on", 0.05, 0.25, (0.1,)),
    )
    assert predictions.problems(run()) == []


def test_a_kernel_without_a_prediction_is_an_error() -> None:
    rows = [row for row in PREDICTED["predictions"] if row["kernel"] != "patched"]
    with pytest.raises(KeyError):
        predictions.switches({**PREDICTED, "predictions": rows}, SECONDS)


@pytest.mark.parametrize(
    ("seconds", "high", "problem"),
    [
        ((0.09,), 0.5, "patched off: 0.09 s is not in 0.10 to 0.50 s"),
        ((0.6, 0.7, 0.2), 0.5, "patched off: 0.6 s is not in 0.10 to 0.50 s"),
        ((0.3,), 0.7, "off: 0.10 to 0.70 s is too wide a range"),
    ],
)
def test_what_is_outside_and_what_is_too_wide_is_a_problem(
    seconds: tuple[float, ...], high: float, problem: str
) -> None:
    off, *others = (one for one in run().switches if (one.kernel, one.direction) != ("stock", "on"))
    changed = [replace(one, seconds=seconds, high=high) for one in others if one.direction == "off"]
    assert predictions.problems(replace(run(), switches=(off, *changed))) == [problem]


def test_the_table_tells_what_is_inside() -> None:
    lines = predictions.table([run()]).splitlines()
    assert lines[4] == "| ppc64le, 2 x 8 | off | patched | 0.10 to 0.50 | 0.3 (0.2 to 0.9, 3) | yes |"
    outside = replace(run().switches[0], seconds=(7.0,))
    assert predictions.table([replace(run(), switches=(outside,))]).splitlines()[2].endswith("| no |")


def test_a_run_and_a_prediction_are_kept_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "PREDICTIONS", tmp_path / "kept")
    results = tmp_path / "results"
    path = keeping.save(run(), results / "prediction.json")
    (results / figures.PREDICTED).write_text(json.dumps(PREDICTED))
    (results / "costs.jsonl").write_text(json.dumps({"host": {"machine": "ppc64le"}}) + "\n{}\n")
    (results / "costs.off.states.txt.xz").write_bytes(b"trace")
    (results / "console.log").write_text("not kept")
    folder = figures.keep(results / figures.PREDICTED, "6.12")
    assert folder.name == "6.12-ppc64le-16"
    assert {one.name for one in folder.iterdir()} == {
        "costs.jsonl",
        "costs.off.states.txt.xz",
        "predicted.json",
    }
    assert figures.keep(path, "6.12").name == "6.12-ppc64le-16.json"
    assert list(figures.prediction_runs().values()) == [run()]


def test_kept_predictions_held() -> None:
    """Of the switches of the patched kernel, seven of eight at least; and the ranges tell something."""
    runs = figures.prediction_runs().values()
    patched = [one for run in runs for one in run.switches if one.kernel == "patched"]
    assert len(patched) >= 8
    assert {(run.arch, run.cpus) for run in runs} >= {
        (arch, cpus) for arch in ("ppc64le", "x86_64") for cpus in (16, 64)
    }
    assert sum(one.inside for one in patched) >= 7 / 8 * len(patched)
    assert all(one.high <= predictions.WIDEST * one.low for one in patched)


def test_kept_predictions_are_those_that_were_made() -> None:
    for path, run in figures.prediction_runs().items():
        made = json.loads((path.with_suffix("") / figures.PREDICTED).read_text())
        seconds: dict[str, dict[str, tuple[float, ...]]] = {"stock": {}, "patched": {}}
        for one in run.switches:
            seconds[one.kernel][one.direction] = one.seconds
        assert predictions.switches(made, seconds) == run.switches
