"""The result of `make demo`: the README's table, and the whole output for the tutorial."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docpages.paths import DEMO, ROOT
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.reader import Run, read_files

BASELINE, VARIANT = "stock", "patched"
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


def table(output_of: Output) -> str:
    """Return the two rows of the README: median seconds, ratio and grace periods of each switch."""
    found = json.loads(output_of(_compare("--format", "json")))
    rows = [
        "| switch | stock kernel | patched kernel | ratio | waits for a grace period |",
        "|---|---|---|---|---|",
    ]
    for operation in dict.fromkeys(entry["operation"] for entry in found["comparisons"]):
        both = [_entry(found["comparisons"], operation, variant) for variant in (BASELINE, VARIANT)]
        stock, patched = (entry["median_s"] for entry in both)
        counted = [_entry(found["counts"], operation, variant) for variant in (BASELINE, VARIANT)]
        waits = [entry["synchronize_rcu"][0] for entry in counted]
        rows.append(
            f"| `{operation}` | {stock:.2f} s | **{patched:.2f} s** "
            f"| {stock / patched:.1f} times faster | {waits[0]} → {waits[1]} |"
        )
    run = _runs()[0]
    emulated = "; **QEMU emulates the CPUs, so the seconds are not those of hardware**"
    conditions = (
        f"Medians of {min(entry['n'] for entry in found['comparisons'])} switches; {found['cpus']} CPUs "
        f"({run.shape.cores} cores x SMT{run.shape.threads_per_core}); "
        f"Linux {run.host.kernel_release.partition('-')[0]}{emulated if found['emulated'] else ''}."
    )
    return "\n".join([*rows, "", conditions])


def console(output_of: Output) -> str:
    """Return all that `make demo` prints at its end, and the conditions."""
    return f"```console\n$ make demo\n...\n{output_of(_compare())}\n```\n\n{_conditions(output_of)}"


def _compare(*options: str) -> list[str]:
    files = [str(file.relative_to(ROOT)) for file in sorted(DEMO.glob("*.jsonl"))]
    if not files:
        raise ToolError(f"no result files in {DEMO}", "name the results of a demo", ExitCode.INPUT)
    return ["compare", "--baseline", BASELINE, *options, *files]


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


def _runs() -> tuple[Run, ...]:
    """Return the runs of the result files, in the order of the boots."""
    return read_files(sorted(DEMO.glob("*.jsonl"))).runs


def _entry(entries: list[dict[str, Any]], operation: str, variant: str) -> dict[str, Any]:
    return next(one for one in entries if (one["operation"], one["variant"]) == (operation, variant))
