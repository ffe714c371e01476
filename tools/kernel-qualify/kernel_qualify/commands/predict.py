"""`kernel-qualify predict`: hold a prediction of the patched kernel's time against the time it takes."""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotplug_common import process
from hotplug_common.kernel import series
from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import keeping, options
from kernel_qualify.commands import speed
from kernel_qualify.figures import PREDICTED
from kernel_qualify.guest.costs import RESULT
from kernel_qualify.judge import predictions, verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "predict"
LIMIT_S = 3 * 3600


@dataclass(frozen=True)
class Settings:
    """How often the patched kernel is timed, and whether to predict alone, or to hold a kept prediction."""

    iterations: int
    predict_only: bool
    predicted: Path | None


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="predict the patched kernel's time from the stock kernel, then measure it",
        description="""Measure in a bare guest with the stock kernel what the parts of a switch cost, and
predict from that how long smt=off and smt=on take on both kernels; then boot both and time them. Seconds
depend on the host: nothing else should run there.
Proven: the median of each switch is in its range, and no range of the patched kernel has a high end of more
than 6 times its low end.""",
        examples="""examples:
  kernel-qualify predict
  # stop before the patched kernel is booted, so that `keep` can keep the prediction first
  kernel-qualify predict --arch x86_64 --cores 8 --predict-only
  # hold a kept prediction
  kernel-qualify predict --arch x86_64 --cores 8 --predicted docs/data/prediction/6.12-x86_64-16""",
    )
    options.add_line(parser)
    options.add_arch(parser)
    options.add_shape(parser)
    options.add_fragments(parser)
    parser.add_argument(
        "--iterations",
        type=positive,
        default=5,
        metavar="N",
        help="timed switches of the patched kernel, default: %(default)s; the stock kernel is timed once",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--predict-only", action="store_true", help="boot the stock kernel alone, and predict")
    which.add_argument(
        "--predicted", type=Path, metavar="FOLDER", help="hold the prediction in this folder, and make none"
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    settings = Settings(arguments.iterations, arguments.predict_only, arguments.predicted)
    find = partial(_find, options.order(arguments), settings)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, settings: Settings, ground: Ground) -> list[str]:
    predicted = (
        _kept(settings.predicted)
        if settings.predicted
        else _predict(replace(order, variant=series.STOCK), ground)
    )
    if settings.predict_only:
        return []
    releases: dict[str, str] = {}
    seconds: dict[str, dict[str, tuple[float, ...]]] = {}
    for kernel, iterations in ((series.STOCK, 1), (series.PATCHED, settings.iterations)):
        records = ground.guest(replace(order, variant=kernel)).alone(
            speed.NAME,
            *("--iterations", str(iterations), "--modes", "plain"),
            append=speed.QUIET,
            silence=speed.SILENCE_S,
        )
        releases[kernel] = verdicts.the(records, "machine")["release"]
        seconds[kernel] = predictions.seconds_of(records)
    switches = predictions.switches(predicted, seconds)
    run = predictions.Run(order.line, order.arch, order.cores, order.threads, releases, switches)
    keeping.save(run, ground.results / "prediction.json")
    out(predictions.table([run]).rstrip())
    return predictions.problems(run)


def _predict(order: Order, ground: Ground) -> dict[str, Any]:
    """Measure the costs in a stock guest, and predict; leave in the results what that needs and says."""
    records = ground.guest(order).alone("costs", append=speed.QUIET, silence=speed.SILENCE_S)
    for name, content in verdicts.files(records).items():
        packed = name.endswith(".txt")
        path = ground.results / (f"{name}.xz" if packed else name)
        path.write_bytes(lzma.compress(content) if packed else content)
    program, costs = Path(sys.executable).with_name("hotplug-timer"), ground.results / RESULT
    done = process.run([program, NAME, costs, "--format", "json"], merge_errors=False)
    if done.returncode:
        raise ToolError(
            f"hotplug-timer predict ended with {done.returncode}",
            f"try hotplug-timer predict {costs}",
            ExitCode.GUEST,
        )
    (ground.results / PREDICTED).write_text(done.output)
    ground.say(f"  predicted: {ground.results / PREDICTED}")
    found: dict[str, Any] = json.loads(done.output)
    return found


def _kept(folder: Path) -> dict[str, Any]:
    """Return a prediction that was kept; ToolError (INPUT) where there is none."""
    path = folder / PREDICTED
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ToolError(f"{path}: {error}", "name a folder of --predict-only", ExitCode.INPUT) from error
    return found
