"""What a result file of N iterations costs: python tests/unit/hotplug_timer/large_results.py N [COMMAND].

COMMAND is `compare`, as it is left out, or `report`.
"""

import contextlib
import io
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from hotplug_timer import cli
from tests.samples.resultfiles import end, iteration, run_record


def write(path: Path, run_id: str, variant: str, iterations: int, median: float) -> None:
    """Write a run whose seconds scatter around a median."""
    scatter = random.Random(run_id)  # noqa: S311
    with path.open("w") as file:
        file.write(json.dumps(run_record(run_id, variant)) + "\n")
        for index in range(1, iterations + 1):
            seconds = round(median * scatter.lognormvariate(0, 0.1), 6)
            file.write(json.dumps(iteration(run_id, index, "smt=off", seconds)) + "\n")
        file.write(json.dumps(end(run_id)) + "\n")


def write_pair(folder: Path, iterations: int) -> list[Path]:
    """Write two files, of two variants, of half the iterations each."""
    paths = [folder / "stock.jsonl", folder / "patched.jsonl"]
    write(paths[0], "r1", "stock", iterations // 2, 2.0)
    write(paths[1], "r2", "patched", iterations // 2, 1.9)
    return paths


def main() -> None:
    """Write two files of N / 2 iterations, compare or report them, print what it took."""
    iterations = int(sys.argv[1])
    command = sys.argv[2] if len(sys.argv) > 2 else "compare"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_pair(folder, iterations)
        arguments = ["--output-dir", str(folder), "--line", "6.12"] if command == "report" else []
        size = sum(path.stat().st_size for path in paths) / 1e6
        started = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert cli.main([command, *map(str, paths), *arguments]) == 0
        took = time.process_time() - started
        page = folder / "report.html"
        written = f", a page of {page.stat().st_size / 1e6:.1f} MB" if command == "report" else ""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cost = f"{iterations} iterations, {size:.0f} MB: {took:.0f} s of CPU time, {memory:.0f} MiB{written}"
    sys.stdout.write(f"{out.getvalue()}\n{cost}\n")


if __name__ == "__main__":
    main()
