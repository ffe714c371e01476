"""Switch SMT in a unit of the host's systemd, which neither the connection nor the controller can end.

`start` begins the switch, `finish` takes its answer and gives the host back. Between them the caller follows
the unit and its log, and may be another one than that which began it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hotplug_host import placement
from hotplug_host.agent.run_lock import release
from hotplug_host.arguments import add_sysroot
from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.holder import APPLIED, LOCK, PERSISTS, read_applied, write_record
from hotplug_host.lease import own_run
from hotplug_host.programs import read_smt
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import read_online

UNIT = "hotplug-acceleration-switch.service"
#: Below the staging directory, where a rollback removes it.
FOLDER = "stage/switch"
PROGRAM, ANSWER, LOG = "hotplug-timer.pyz", "answer.json", "log"
ERROR = "hotplug-timer: error: "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--action", choices=["start", "finish"], required=True, help="what to do")
    parser.add_argument(
        "--staging", type=Path, required=True, help="directory of the run's files and its lock"
    )
    parser.add_argument("--timeout", type=int, default=7200, help="seconds that the switch may take")
    parser.add_argument("--record", type=json.loads, default={}, metavar="JSON", help="the state before it")
    parser.add_argument("--token", default="", help="token of the run that holds the host")
    parser.add_argument("--program", type=Path, default=Path(sys.argv[0]), help="the zipapp to start")
    add_sysroot(parser)
    parser.add_argument("words", nargs="*", help="arguments of `smt`, after --")


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Begin the switch, or take its answer."""
    fs = Sysfs(arguments.sysroot)
    if arguments.action == "start":
        keep_way_back(fs, arguments.staging, arguments.record)
        start(arguments.staging, arguments.program, arguments.words, arguments.timeout)
        return {"changed": True}
    return finish(fs, arguments.staging, arguments.token)


def keep_way_back(fs: Sysfs, staging: Path, record: dict[str, Any]) -> None:
    """Write down what a rollback puts back: the state before the first switch of this boot."""
    if read_applied(fs, staging) is None:
        placement.keep(fs, staging)
        write_record(staging / APPLIED, record)


def start(staging: Path, program: Path, words: list[str], timeout_s: int) -> None:
    """Start `smt` with WORDS as a unit. ToolError (OPERATION) when systemd refuses."""
    folder = staging / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / PROGRAM
    shutil.copyfile(str(program), str(copy))
    unit = [
        "systemd-run",
        "--collect",
        "--quiet",
        f"--unit={UNIT}",
        "--description=SMT switch",
        # Whether its controller lives or not, the unit renews the lease of the run.
        *(f"--setenv={word}" for word in own_run()),
        # Its first signal lets the switch in progress end.
        f"--property=TimeoutStopSec={timeout_s}",
        f"--property=StandardOutput=file:{folder / ANSWER}",
        f"--property=StandardError=file:{folder / LOG}",
    ]
    done = subprocess.run(
        [*unit, sys.executable, str(copy), "smt", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ToolError(f"systemd-run: {_last(done.stderr)}", code=ExitCode.OPERATION)


def finish(fs: Sysfs, staging: Path, token: str) -> dict[str, Any]:
    """Return the answer of the switch, and give the host back.

    ToolError (TIMEOUT) while the switch goes on: then nothing is given back. ToolError (OPERATION) for one
    that failed, or that ended without an answer.
    """
    folder = staging / FOLDER
    said = _last(_read(folder / LOG)).removeprefix(ERROR)
    state = subprocess.run(["systemctl", "is-active", UNIT], capture_output=True, text=True, check=False)
    if state.stdout.strip() in ("active", "activating", "deactivating"):
        raise ToolError(f"the switch goes on: {said}", code=ExitCode.TIMEOUT)
    text = _last(_read(folder / ANSWER))
    lost = _forget_way_back(fs, staging)
    shutil.rmtree(str(staging / "stage"), ignore_errors=True)
    release(staging / LOCK, token)
    if not text:
        raise ToolError(said or "the switch left no answer", code=ExitCode.OPERATION)
    answer = json.loads(text)
    now = {"online": format_cpulist(read_online(fs)), "level": read_smt(fs).level}
    return {**answer, "said": [*answer["said"], *lost], **now}


def _forget_way_back(fs: Sysfs, staging: Path) -> list[str]:
    """Remove the record of a switch where the host is as that has it, or where it is of another boot.

    Interrupts have their CPUs again then; what is lost is returned in lines.
    """
    record = read_applied(fs, staging)
    if record is None or (PERSISTS not in record and parse_cpulist(record["online"]) == read_online(fs)):
        (staging / APPLIED).unlink(missing_ok=True)
        return placement.put_back(fs, staging)
    return []


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _last(text: str) -> str:
    """Return the last line with something in it; empty where there is none."""
    return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")
