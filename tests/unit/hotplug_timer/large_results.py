"""What a result file of N iterations costs `compare`: python tests/unit/hotplug_timer/large_results.py N."""

import contextlib
import io
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from resultfiles import end, iteration, run_record

from hotplug_timer import cli


def write(path: Path, run_id: str, label: str, iterations: int, median: float) -> None:
    """Write a run whose seconds scatter around a median."""
    scatter = random.Random(run_id)  # noqa: S311
    with path.open("w") as file:
        file.write(json.dumps(run_record(run_id, label)) + "\n")
        for index in range(1, iterations + 1):
            seconds = round(median * scatter.lognormvariate(0, 0.1), 6)
            file.write(json.dumps(iteration(run_id, index, "smt=off", seconds)) + "\n")
        file.write(json.dumps(end(run_id)) + "\n")


def main() -> None:
    """Write two files of N / 2 iterations, compare them, print what it took."""
    iterations = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "stock.jsonl", Path(folder) / "patched.jsonl"]
        write(paths[0], "r1", "stock", iterations // 2, 2.0)
        write(paths[1], "r2", "patched", iterations // 2, 1.9)
        size = sum(path.stat().st_size for path in paths) / 1e6
        started = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert cli.main(["compare", *map(str, paths)]) == 0
        took = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cost = f"{iterations} iterations, {size:.0f} MB: {took:.0f} s of CPU time, {memory:.0f} MiB"
    sys.stdout.write(f"{out.getvalue()}\n{cost}\n")


if __name__ == "__main__":
    main()
