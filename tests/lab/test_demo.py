"""The whole job, `lpar-lab demo`, at 8 CPUs: two kernels by kexec in turns, compared and reported."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hotplug_timer.reader import Run, read_files
from tests.lab.labtools import Lab

# Two cold kernel builds, a base disk and seven boots on two slow cores.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(4500)]

ITERATIONS = 2
BLOCKS = ["stock", "patched", "patched", "stock"]
SAMPLES = ITERATIONS * BLOCKS.count("stock")
OUTSIDE = re.compile(
    r"""(?:src|href|srcset)\s*=\s*["']?\s*(?:https?:)?//|url\(\s*["']?https?:|@import|<link"""
)


@dataclass(frozen=True)
class Demo:
    """A demo that has ended, and what it left."""

    done: subprocess.CompletedProcess[str]
    output: Path

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.output / "summary.json").read_text())
        return summary

    @property
    def runs(self) -> tuple[Run, ...]:
        return read_files(sorted((self.output / "raw").rglob("*.jsonl"))).runs


@pytest.fixture(scope="module")
def demo(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    output = tmp_path_factory.mktemp("demo")
    shape = ("--cores", "2", "--threads", "4")
    counts = ("--boots", str(BLOCKS.count("stock")), "--iterations", str(ITERATIONS), "--settle", "0.2")
    done = lab.run("demo", *shape, *counts, "--output-dir", str(output), timeout=4200)
    assert done.returncode == 0, done.stderr[-4000:]
    yield Demo(done, output)


def test_prints_the_table_and_where_the_report_is(demo: Demo) -> None:
    lines = demo.done.stdout.splitlines()
    assert "8 CPUs (2 cores x SMT4), emulated" in lines[0]
    for operation in ("smt=off", "smt=on"):
        for variant in ("stock", "patched"):
            assert any(line.split()[:2] == [operation, variant] for line in lines)
    assert lines[-1] == str(demo.output / "report.html")


def test_costs_were_measured_before_the_patched_kernel_was_booted(demo: Demo) -> None:
    plain, expedited = read_files([demo.output / "costs/costs.jsonl"]).runs
    assert plain.host.kernel_release == expedited.host.kernel_release
    assert "stock" in plain.host.kernel_release
    first = min(run.started for run in demo.runs if run.variant == "patched")
    assert plain.started < expedited.started < first
    # On a busy host the pieces may not come to the whole.
    made = (demo.output / "costs/prediction.txt").exists()
    assert made != ("no prediction: " in demo.done.stderr)


def test_summary_has_its_stable_keys_and_sane_values(demo: Demo) -> None:
    summary = demo.summary
    assert (summary["cpus"], summary["line"], summary["emulated"]) == (8, "6.12", True)
    assert set(summary["variants"]) == {"stock", "patched"}
    for variant in summary["variants"].values():
        for operation in ("off", "on"):
            seconds = variant[f"{operation}_s"]
            assert len(seconds) == SAMPLES
            assert all(0 < value < 300 for value in seconds)
            counts = variant["counts"][operation]
            assert {"synchronize_rcu", "stop_machine", "domain_rebuild"} <= set(counts)
            # Medians: two boots of one kernel may wait for 55 and 56 grace periods.
            assert all(count >= 0 and float(2 * count).is_integer() for count in counts.values())
    assert set(summary["speedup"]) == {"off", "on"}


def test_patched_waits_for_half_the_grace_periods_or_fewer(demo: Demo) -> None:
    waits = {
        name: sum(variant["counts"][operation]["synchronize_rcu"] for operation in ("off", "on"))
        for name, variant in demo.summary["variants"].items()
    }
    assert 0 < waits["patched"] <= waits["stock"] / 2


def test_no_cpu_of_patched_goes_one_by_one(demo: Demo) -> None:
    """One teardown callback that has not opted in is enough for it, as a new kernel may bring one."""
    counts = demo.summary["variants"]["patched"]["counts"]
    assert {name: (count["chunks"], count["serial_chunks"]) for name, count in counts.items()} == {
        "off": (1, 0),
        "on": (1, 0),
    }


def test_patched_is_faster(demo: Demo) -> None:
    """Not by the verdict: two boots a side beside another guest may differ too much for one."""
    summary = demo.summary
    verdicts = {row["operation"]: row["verdict"] for row in summary["comparisons"] if row["verdict"]}
    assert set(verdicts) == {"smt=off", "smt=on"}
    assert set(verdicts.values()) <= {"faster", "no difference shown"}
    assert all(factor > 1.5 for factor in summary["speedup"].values())


def test_every_block_ran_the_kernel_it_says_on_a_boot_of_its_own(demo: Demo) -> None:
    runs = demo.runs
    assert [run.variant for run in runs] == BLOCKS
    assert len({run.host.boot_id for run in runs}) == len(BLOCKS)
    for run in runs:
        assert f"-{run.variant}-" in run.host.kernel_release
        assert f"hotplug_acceleration.variant={run.variant}" in run.host.cmdline.split()
        assert (run.host.boot_method, run.outcome, run.restored) == ("kexec", "complete", True)


def test_report_needs_no_other_file(demo: Demo) -> None:
    page = (demo.output / "report.html").read_text()
    assert "<svg" in page
    assert OUTSIDE.findall(page) == []


def test_the_guest_has_a_row_of_smt_fleet(demo: Demo) -> None:
    (file,) = demo.output.glob("smt-fleet/*/summary.json")
    (row,) = json.loads(file.read_text())["hosts"]
    assert (row["host"], row["verdict"]) == ("demo", "ok")


def test_nothing_is_left(demo: Demo, lab: Lab) -> None:
    lab.assert_empty()
