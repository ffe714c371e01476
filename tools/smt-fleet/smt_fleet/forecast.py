"""What the costs of hosts predict of a run: of all hosts for a plan, of one for a playbook.

`python -m smt_fleet.forecast REQUEST` is what the roles call, with the request and the answer in JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hotplug_common import process
from hotplug_host.entry import Parser, guarded
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.preflight.judge import WARNINGS, Reason
from smt_fleet import costs, playbooks
from smt_fleet.costs import CHUNKS_PATCH, SWITCHES, Costs, Forecast, Job, Kernel, Seen, seen_in

TIMER = "hotplug-timer"
CHECKS = "*-check*/preflight.json"


def file_of(folder: Path, host: str) -> Path:
    """Return where the costs of a host are."""
    return folder / f"{host}.jsonl"


def check_folder(folder: Path) -> Path:
    """Return the folder of costs; ToolError (INPUT) where there is none."""
    if not folder.is_dir():
        raise ToolError(
            f"there is no folder {folder}",
            f"put a result of {TIMER} measure-costs there for each host, as HOST.jsonl",
            ExitCode.INPUT,
        )
    return folder


def forecasts(
    folder: Path, hosts: Sequence[str], job: Job, seen: Mapping[str, Seen] | None = None
) -> list[Forecast]:
    """Return what a run takes on each host; SEEN is what is known of them."""
    known = seen or {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda host: of_host(folder, host, job, known.get(host)), hosts))


def of_host(folder: Path, host: str, job: Job, seen: Seen | None) -> Forecast:
    """Return what a run takes on a host; why that is not known is part of it."""
    file = file_of(folder, host)
    if not file.is_file():
        reason = Reason("", f"there is no {file}", f"measure its costs with {TIMER} measure-costs")
        return Forecast(host, seen=seen, problem=reason)
    try:
        found = read(file, seen.chunk if seen else None)
    except ToolError as error:
        return Forecast(host, seen=seen, problem=Reason(WARNINGS, error.message, error.hint))
    return costs.forecast(host, found, job, seen)


def read(file: Path, chunk: int | None = None) -> Costs:
    """Return what `hotplug-timer predict` says of a file; ToolError (INPUT) with its one line of refusal."""
    command = [playbooks.program(TIMER), "predict", str(file), "--format", "json"]
    command += ["--chunk", str(chunk)] if chunk else []
    done = process.run(command, merge_errors=False)
    if done.returncode:
        # What refuses tells one line: what is wrong; what to do.
        told = process.last_line(done.errors).removeprefix(f"{TIMER}: error: ")
        text, _, step = told.rpartition("; ")
        where = "" if str(file) in told else f"{file}: "
        raise ToolError(f"{where}{text or told}", step if text else "measure again", ExitCode.INPUT)
    return costs.costs_in(str(file), json.loads(done.output))


def last_seen(output: Path) -> dict[str, Seen]:
    """Return what the last `smt-fleet check` saw of each host, by the runs in OUTPUT."""
    found: dict[str, Seen] = {}
    for path in sorted(output.glob(CHECKS)):
        try:
            rows = json.loads(path.read_text("utf-8"))["hosts"]
            known = {row["host"]: seen_in(row["facts"], path.parent.name) for row in rows}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ToolError(
                f"{path} is no table of preflight: {error!r}", "remove it, or check again", ExitCode.INPUT
            ) from error
        found |= {host: seen for host, seen in known.items() if seen}
    return found


def job_of(words: Mapping[str, Any]) -> Job:
    """Return what a run does on each host, as a plan and a playbook describe it."""
    files = words.get("artifacts", [])
    kernels = zip(files, words.get("expedited", [False] * len(files)), strict=True)
    return Job(
        words["action"],
        str(words.get("level", "")),
        tuple(kernel_of(file, expedited) for file, expedited in kernels),
        # Forth and back.
        2 * int(words["repeat"]) if "repeat" in words else 1,
        int(words.get("iterations", 0)),
        int(words.get("counted", 0)),
        tuple(words.get("operations", SWITCHES)),
    )


def kernel_of(artifact: str, expedited: bool) -> Kernel:
    """Return which kind of kernel is timed; of one with the patch, expedited or not is the same here."""
    if switches_in_chunks(artifact):
        return Kernel.PATCHED
    return Kernel.EXPEDITED if expedited else Kernel.STOCK


def switches_in_chunks(artifact: str) -> bool:
    """Whether a kernel has the patch, by its artifact.json. Of one without such a file that is not known."""
    if not artifact:
        return False
    try:
        described = json.loads(Path(artifact).read_text("utf-8"))
        return any(CHUNKS_PATCH in name for name in described.get("patches", ()))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ToolError(
            f"{artifact} describes no kernel: {error!r}", "build it again", ExitCode.INPUT
        ) from error


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a role is told of a host."""
    found = of_host(
        check_folder(Path(asked["folder"])), asked["host"], job_of(asked["job"]), seen_in(asked["facts"])
    )
    reasons = [found.problem] if found.problem and found.problem.level else []
    reasons += found.too_long(float(asked["timeout"]))
    return {
        "said": str(found),
        "minutes": found.minutes,
        "reasons": [vars(reason) for reason in reasons],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and print; returns the exit code."""
    parser = Parser(prog="fleet-forecast", description=__doc__)
    parser.add_argument("request", metavar="REQUEST")

    def work() -> None:
        sys.stdout.write(json.dumps(answer(json.loads(parser.parse_args(argv).request))) + "\n")

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
