"""Instructions of SMT switches: the plugin's symbols, its counts, and what is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotplug_common.kernel.series import PATCHED, STOCK
from kernel_qualify import keeping
from kernel_qualify.guest.instructions import text_symbols
from kernel_qualify.judge import instructions
from kernel_qualify.judge.instructions import Run, Switches

KALLSYMS = """\
c000000000010000 T _stext
c000000000020000 t control_show
c000000000100000 T cpuhp_smt_disable
c000000000100100 T cpuhp_smt_enable
c000000000100200 t control_show
c000000000100300 T __cpu_disable
c000000000100300 T alias_of_it
c000000000200000 t multi_cpu_stop
c000000000200080 T stop_machine_yield
c0000000002000c0 T _find_next_bit
c0000000002000e0 T splpar_spin_yield
c000000000200100 d some_data
c000000000200200 T _etext
c008000000000000 t init_module [lpfc]
"""


def one(kernel: str = PATCHED, operation: str = "off", cpus: int = 16, **changed: Any) -> Switches:
    switched = cpus - cpus // 8
    found = Switches(
        kernel=kernel,
        operation=operation,
        cpus=cpus,
        switched=switched,
        number=5,
        work=1000.0 * switched,
        idle=5.0,
        waiting=7.0 * switched,
        spinning=3.0 * switched,
        turns=switched,
        turn=100.0,
        longest_turn=120.0,
        functions={"memcpy": 50.0 * switched},
        turn_functions={"xive": 20.0 * switched},
    )
    return replace(found, **changed)


def run(*found: Switches) -> Run:
    return Run("6.12", "ppc64le", 8, {PATCHED: "6.12-p"}, found)


def span(begun_by: str, scale: int = 1) -> dict[str, Any]:
    functions = {
        "memcpy": 30 * scale,
        "snooze_loop": 1000,
        "multi_cpu_stop": 200,
        "elsewhere": 10,
        "__cpu_up": 50,
    }
    return {
        "begun_by": begun_by,
        "cpus": [[90, 0, 0, 0], [80, 1, 40, 40], [70, 1, 60, 60]],
        "functions": functions,
        "turn_functions": {"xive": 9},
    }


def test_the_function_of_a_role_is_the_one_beside_those_that_switch() -> None:
    lines = instructions.symbols_file(text_symbols(KALLSYMS)).splitlines()
    assert lines[:2] == ["c000000000010000 - _stext", "c000000000020000 - control_show"]
    assert "c000000000100200 e control_show.2" in lines
    assert [line.split()[1] for line in lines] == list("--bbetwwls-")
    # One function of two names is one; data and modules are none.
    assert "c000000000100300 t alias_of_it" in lines
    assert len(lines) == 11


def test_a_kernel_without_a_function_that_is_needed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the kernel has no __cpu_disable\(\)"):
        instructions.symbols_file(text_symbols(KALLSYMS.replace("__cpu_disable", "other")))


def test_medians_leave_out_the_first_switch_and_cpus_that_are_idle_or_wait() -> None:
    spans = [
        span(name, scale) for scale in (9, 1, 2, 3) for name in ("cpuhp_smt_disable", "cpuhp_smt_enable")
    ]
    off, on = instructions.switches(STOCK, 3, 2, spans)
    assert (off.operation, on.operation, off.number) == ("off", "on", 3)
    assert (off.work, off.idle, off.waiting, off.spinning) == (2 * 30 + 10, 1000, 200, 50)
    assert (off.turns, off.turn, off.longest_turn) == (2, 50, 60)
    assert off.functions == {"memcpy": 60, "elsewhere": 10}
    assert off.turn_functions == {"xive": 9}
    assert off.work_per_cpu == 35


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, None),
        ({"work": 1099.0 * 56}, None),
        ({"work": 1101.0 * 56}, "off: the instructions of a CPU grow by 10%"),
        ({"turn": 150.0}, "off: the instructions of a turn grow by 50%"),
        ({"turns": 55}, "off, 64 CPUs, patched: 55 turns for 56 CPUs"),
    ],
)
def test_what_a_cpu_costs_must_not_grow_with_the_guest(changed: dict[str, Any], problem: str | None) -> None:
    found = run(one(cpus=64, **changed), one(), one("stock", turn=1.0), one("stock", cpus=64, turn=900.0))
    assert instructions.problems(found) == ([problem] if problem else [])


def test_one_guest_tells_nothing_of_growth() -> None:
    assert instructions.growth(run(one()), PATCHED, "off") is None


def test_a_row_has_what_one_cpu_takes(tmp_path: Path) -> None:
    found = run(one(), one(operation="on"))
    off, on = instructions.table([found]).splitlines()[-2:]
    assert (
        off == "| ppc64le, 2 x 8 | patched | off | 5 | 1,000 | 100 | 120 | 7 | 3 | `memcpy` 50 | `xive` 20 |"
    )
    assert on == "| ppc64le, 2 x 8 | patched | on | 5 | 1,000 |  |  |  | 3 | `memcpy` 50 | `xive` 20 |"
    assert instructions.load(keeping.save(found, tmp_path / "instructions.json")) == found


def test_a_run_of_another_size_is_added_to_the_kept_one() -> None:
    kept = replace(
        run(one(STOCK), one(), one(work=7.0, cpus=64)), releases={STOCK: "6.12-s", PATCHED: "6.12-p"}
    )
    later = run(one(cpus=64), one(cpus=128))
    both = instructions.with_earlier(later, kept)
    assert both.switches == (one(STOCK), one(), one(cpus=64), one(cpus=128))
    assert both.releases == kept.releases
    other = replace(later, releases={PATCHED: "6.12-other"})
    assert instructions.with_earlier(other, kept) == other
    of_smt4 = replace(later, threads=4)
    assert instructions.with_earlier(of_smt4, kept) == of_smt4
