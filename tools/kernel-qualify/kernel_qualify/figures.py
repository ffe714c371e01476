"""The runs that docs/data keeps: reading them, and taking one more.

Runs of speed go to docs/data/speed, those of clock-costs to docs/data/clocks, those of clock-early to
docs/data/early, those of latencies, instructions and cores to folders of these names. Those of predict go to
docs/data/prediction, with a folder beside each for the prediction as it was made and what it was made of.
`make docs` makes the pages of docs/evidence from them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from kernel_qualify import keeping
from kernel_qualify.guest.costs import RESULT
from kernel_qualify.judge import clockcosts, cores, earlysleeps, gains, instructions, latencies, predictions

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs/data"
KEPT = DATA / "speed"
CLOCKS = DATA / "clocks"
EARLY = DATA / "early"
LATENCIES = DATA / "latencies"
INSTRUCTIONS = DATA / "instructions"
CORES = DATA / "cores"
PREDICTIONS = DATA / "prediction"
PREDICTED = "predicted.json"
"""A prediction as `hotplug-timer predict` made it, beside the costs that it was made of."""


def speed_runs() -> dict[Path, gains.Run]:
    """Return the kept runs of speed, by their files."""
    return {path: gains.load(path) for path in sorted(KEPT.glob("*.json"))}


def clock_runs() -> dict[Path, clockcosts.Run]:
    """Return the kept runs of clock-costs, by their files."""
    return {path: clockcosts.load(path) for path in sorted(CLOCKS.glob("*.json"))}


def early_runs() -> dict[Path, earlysleeps.Run]:
    """Return the kept runs of clock-early, by their files."""
    return {path: earlysleeps.load(path) for path in sorted(EARLY.glob("*.json"))}


def latency_runs() -> dict[Path, latencies.Run]:
    """Return the kept runs of latencies, by their files."""
    return {path: latencies.load(path) for path in sorted(LATENCIES.glob("*.json"))}


def instruction_runs() -> dict[Path, instructions.Run]:
    """Return the kept runs of instructions, by their files."""
    return {path: instructions.load(path) for path in sorted(INSTRUCTIONS.glob("*.json"))}


def core_runs() -> dict[Path, cores.Run]:
    """Return the kept runs of cores, by their files."""
    return {path: cores.load(path) for path in sorted(CORES.glob("*.json"))}


def prediction_runs() -> dict[Path, predictions.Run]:
    """Return the kept runs of predict, by their files."""
    return {path: predictions.load(path) for path in sorted(PREDICTIONS.glob("*.json"))}


def line_of(path: Path) -> str:
    """Return the kernel line that a kept run is of: the first word of its name."""
    return path.name.partition("-")[0]


def place(run: gains.Run) -> str:
    """Return what file names say of how the guests were run: runs of different ways are not compared."""
    return "".join(f"-{word.replace(' ', '-')}" for word in run.place)


def keep(run: Path, line: str) -> Path:
    """Take a run into the kept ones, in place of what they have of the same."""
    facts = json.loads(run.read_text("utf-8"))
    for keys, keeper in KEEPERS:
        if keys <= set(facts):
            return keeper(run)
    return keep_predicted(run, line) if "predictions" in facts else keep_speed(run, line)


def keep_clocks(run: Path) -> Path:
    """Take over a clocks.json."""
    loaded = clockcosts.load(run)
    return keeping.save(loaded, CLOCKS / f"{loaded.line}-{loaded.vcpus}-on-{loaded.host_cpus}.json")


def keep_early(run: Path) -> Path:
    """Take over an early.json."""
    loaded = earlysleeps.load(run)
    return keeping.save(loaded, EARLY / f"{loaded.line}-{loaded.arch}-{loaded.device}.json")


def keep_latencies(run: Path) -> Path:
    """Take over a latencies.json."""
    loaded = latencies.load(run)
    return keeping.save(loaded, LATENCIES / f"{loaded.line}-{loaded.arch}-{loaded.cpus}.json")


def keep_instructions(run: Path) -> Path:
    """Take over an instructions.json."""
    loaded = instructions.load(run)
    target = INSTRUCTIONS / f"{loaded.line}-{loaded.arch}.json"
    if target.exists():
        loaded = instructions.with_earlier(loaded, instructions.load(target))
    return keeping.save(loaded, target)


def keep_cores(run: Path) -> Path:
    """Take over a cores.json."""
    loaded = cores.load(run)
    return keeping.save(loaded, CORES / f"{loaded.line}-{loaded.arch}-{loaded.changes[0].cpus}.json")


def keep_predicted(run: Path, line: str) -> Path:
    """Take over a prediction, with the costs that lie beside it."""
    facts = json.loads(run.read_text("utf-8"))
    first = json.loads(run.with_name(RESULT).read_text("utf-8").partition("\n")[0])
    target = PREDICTIONS / f"{line}-{first['host']['machine']}-{facts['cpus']}"
    target.mkdir(parents=True, exist_ok=True)
    for path in (run, *run.parent.glob(f"{Path(RESULT).stem}.*")):
        shutil.copy(path, target)
    return target


def keep_prediction(run: Path) -> Path:
    """Take over a prediction.json."""
    loaded = predictions.load(run)
    return keeping.save(loaded, PREDICTIONS / f"{loaded.line}-{loaded.arch}-{loaded.cpus}.json")


def keep_speed(run: Path, line: str) -> Path:
    """Take over a speed.json."""
    loaded = gains.load(run)
    target = KEPT / f"{line}-{loaded.arch}-{loaded.cpus}{place(loaded)}.json"
    if target.exists():
        loaded = gains.with_earlier(loaded, gains.load(target))
    return keeping.save(loaded, target)


KEEPERS: tuple[tuple[set[str], Callable[[Path], Path]], ...] = (
    ({"sleeps"}, keep_early),
    ({"latencies"}, keep_latencies),
    ({"changes"}, keep_cores),
    ({"switches", "cores"}, keep_prediction),
    ({"switches"}, keep_instructions),
    ({"costs"}, keep_clocks),
)
"""What a run of a test has that those of the tests after it lack, and what keeps it."""
