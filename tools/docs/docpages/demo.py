"""The README's table, of `make demo` and a distribution's kernel, and the demo's output for the tutorial."""

from __future__ import annotations

import json
import lzma
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docpages.paths import DEMO, DISTRIBUTION, ROOT
from hotplug_common.kernel import lines, series
from hotplug_common.tables import significant
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.reader import Run, read_files
from kernel_qualify.judge.mdtable import heading, row
from lpar_lab.costs import RESULT
from lpar_lab.demo import COSTS

BASELINE, VARIANT = "stock", "patched"
DEBIAN = "debian"
#: Runs hotplug-timer from the root, and returns its output.
Output = Callable[[list[str]], str]


def replace(results: Path) -> None:
    """Copy a demo's raw result files over the kept ones; ToolError (INPUT) without any."""
    raw = sorted((results / "raw").rglob("*.jsonl"))
    if not raw:
        raise ToolError(f"no result files below {results / 'raw'}", "run make demo first", ExitCode.INPUT)
    DEMO.mkdir(parents=True, exist_ok=True)
    for old in DEMO.glob("*.jsonl"):
        old.unlink()
    for file in raw:
        shutil.copyfile(file, DEMO / file.name)
    shutil.rmtree(DEMO / COSTS, ignore_errors=True)
    (DEMO / COSTS).mkdir()
    shutil.copyfile(results / COSTS / RESULT, DEMO / COSTS / RESULT)
    for trace in (results / COSTS).glob("*.states.txt"):
        (DEMO / COSTS / f"{trace.name}.xz").write_bytes(lzma.compress(trace.read_bytes()))


def table(output_of: Output) -> str:
    """Return the rows of the README: median seconds, ratio and grace periods of each switch."""
    found = json.loads(output_of(_compare("--format", "json")))
    head = ["kernels", "switch", "without the patches", "with them", "ratio", "waits for a grace period"]
    lab = _rows("the lab's", BASELINE, found)
    debian = json.loads(output_of(_compare("--format", "json", folder=DISTRIBUTION, baseline=DEBIAN)))
    run, installed = _runs()[0], _runs(DISTRIBUTION)
    releases = {one.variant: one.host.kernel_release for one in installed}
    emulated = "; **QEMU emulates the CPUs, so the seconds are not those of hardware**"
    return "\n".join(
        [
            *heading(head),
            *lab,
            *_rows("Debian's", DEBIAN, debian),
            "",
            _prediction(output_of),
            "",
            f"Medians{emulated if found['emulated'] else ''}.",
            f"The lab's: {_shape(run)}; Linux {run.host.kernel_release.partition('-')[0]}, built with few"
            f" drivers, stock and patched; {_samples(found)}.",
            f"Debian's: {_shape(installed[0])}; its own kernel {releases[DEBIAN]} as packaged, and"
            f" {releases[VARIANT]} with Debian's configuration{_patches_then()}, installed from a package, in"
            f" a guest like a partition of PowerVM; {_samples(debian)}. The evidence has the conditions, and"
            f" where the time goes.",
        ]
    )


def _shape(run: Run) -> str:
    shape = run.shape
    return f"{shape.cpus} CPUs ({shape.cores} cores x SMT{shape.threads_per_core})"


def _patches_then() -> str:
    """Return how many of the line's patches a distribution's package had, where the line has more now."""
    then = re.search(r"with the (\d+) patches", (DISTRIBUTION / "conditions.txt").read_text("utf-8"))
    now = len(series.load(ROOT / "kernel-patches", lines.DEFAULT, series.PATCHED))
    return f" and {then[1]} of the {now} patches" if then and int(then[1]) < now else ""


def _prediction(output_of: Output) -> str:
    """Return what the demo predicted of the patched kernel, made again of what it had measured."""
    costs = str((DEMO / COSTS / RESULT).relative_to(ROOT))
    found = json.loads(output_of(["predict", costs, "--format", "json"]))["predictions"]
    said = ", ".join(
        f"`{one['operation']}` {significant(one['low_s'], 2)} to {significant(one['high_s'], 2)} s"
        for one in found
        if one["kernel"] == VARIANT
    )
    return (
        f"`hotplug-timer predict` predicted the lab's patched kernel, from the stock one in the same guest,"
        f" before it was booted: {said}."
    )


def _samples(found: dict[str, Any]) -> str:
    """Return how many switches and boots of each kernel there are."""
    rows = found["comparisons"]
    return f"{min(row['n'] for row in rows)} switches in {min(row['boots'] for row in rows)} boots of each"


def _rows(kernels: str, baseline: str, found: dict[str, Any]) -> list[str]:
    rows = []
    for operation in dict.fromkeys(entry["operation"] for entry in found["comparisons"]):
        both = [_entry(found["comparisons"], operation, variant) for variant in (baseline, VARIANT)]
        before, after = (entry["median_s"] for entry in both)
        counted = [_entry(found["counts"], operation, variant) for variant in (baseline, VARIANT)]
        waits = [entry["synchronize_rcu"][0] for entry in counted]
        cells = [kernels, f"`{operation}`", f"{before:.2f} s", f"**{after:.2f} s**"]
        rows.append(row([*cells, f"{before / after:.1f} times faster", f"{waits[0]} → {waits[1]}"]))
    return rows


def console(output_of: Output) -> str:
    """Return all that `make demo` prints at its end, and the conditions."""
    return f"```console\n$ make demo\n...\n{output_of(_compare())}\n```\n\n{_conditions(output_of)}"


def _compare(*options: str, folder: Path = DEMO, baseline: str = BASELINE) -> list[str]:
    files = [str(file.relative_to(ROOT)) for file in sorted(folder.glob("*.jsonl"))]
    if not files:
        raise ToolError(f"no result files in {folder}", "name the results of a demo", ExitCode.INPUT)
    return ["compare", "--baseline", baseline, *options, *files]


def _conditions(output_of: Output) -> str:
    runs = _runs()
    host = runs[0].host
    order = ", ".join(run.variant for run in runs)
    kernels = " and ".join(dict.fromkeys(f"`{run.host.kernel_release}`" for run in runs))
    spread = [
        f"| `{entry['operation']}` | {entry['variant']} | {entry['min_s']:.2f} | {entry['max_s']:.2f} |"
        for entry in json.loads(output_of(_compare("--format", "json")))["comparisons"]
    ]
    return "\n".join(
        [
            f"The kernels are {kernels}.",
            f"The CPU model is {host.cpu_model}{', emulated by QEMU' if host.emulated else ''}.",
            f"The demo booted them by {host.boot_method}, in the order {order}.",
            "The samples spread like this:",
            "",
            "| switch | variant | fastest (s) | slowest (s) |",
            "|---|---|---|---|",
            *spread,
        ]
    )


def _runs(folder: Path = DEMO) -> tuple[Run, ...]:
    """Return the runs of the result files, in the order of the boots."""
    return read_files(sorted(folder.glob("*.jsonl"))).runs


def _entry(entries: list[dict[str, Any]], operation: str, variant: str) -> dict[str, Any]:
    return next(one for one in entries if (one["operation"], one["variant"]) == (operation, variant))
