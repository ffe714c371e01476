"""The table of RCU variants, all four rows: proven are the counts, the seconds are shown."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import waits
from proving import Proving, none

from hotplug_common.kernel import series

pytestmark = pytest.mark.timeout(3 * 3600)
BOOTS_OF_A_ROW = 2


def test_rcu_variants(proving: Proving, say: Callable[[str], None], pytestconfig: pytest.Config) -> None:
    if proving.order.arch != "ppc64le":
        pytest.skip("only powerpc pauses cpuidle in CPU hotplug")
    lab, order = proving.lab, replace(proving.order, variant=series.STOCK, kernel=None)
    words = ("--base", order.base, "--print-artifact")
    names = ("stock", "revert-442bf3aaf55a", "cpuidle-expedited")
    artifacts = {
        name: lab.must("build-kernel", "--variant", name, *words, timeout=5400).strip() for name in names
    }
    lab.must("up", proving.name, *order.up(()), timeout=5400)
    variables = {
        "rcu_variants_artifacts": artifacts,
        "ab_iterations": max(1, pytestconfig.getoption("--iterations") // BOOTS_OF_A_ROW),
        "ab_count_iterations": 2,
        "ab_warmup": 1,
        "ab_results_dir": str(proving.results),
    }
    done = lab.play("rcu-variants.yml", proving.name, variables, timeout=2.5 * 3600)
    assert done.returncode == 0, done.stdout[-4000:]
    made = proving.results / "table" / proving.name
    for line in (made / "rcu-variants.md").read_text().splitlines():
        say(line)
    table = json.loads((made / "rcu-variants.json").read_text())
    none(waits.problems(table["rows"], table["switched"]))
