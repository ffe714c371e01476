"""The folder of a run: what was planned, what has happened, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hotplug_host import jsonl
from hotplug_host.errors import ExitCode, ToolError

PLAN, STATE, LOCK = "plan.json", "state.jsonl", "lock"


@dataclass(frozen=True)
class Plan:
    """A run as it was asked for: enough to do it again."""

    command: str
    playbook: str
    inventories: list[str]
    variables: dict[str, Any] = field(default_factory=dict)
    limit: str = ""
    arguments: list[str] = field(default_factory=list)
    """More arguments of ansible-playbook."""
    notify: str = ""
    """Web hook that gets the summary."""
    unled: bool = False
    """Whether ansible-playbook or AWX started it by itself: then this is not enough to do it again."""
    planned: dict[str, Any] = field(default_factory=dict)
    """What `smt-fleet plan` prints of it: order, batches, minutes; empty for a run without batches."""

    @property
    def undoes(self) -> bool:
        """Whether it brings hosts back."""
        return self.command == "rollback"


def new_folder(parent: Path, command: str, now: datetime | None = None) -> Path:
    """Make the folder of a new run below PARENT, named by the time (UTC) and the command."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    for number in range(1, 100):
        folder = parent / f"{moment}-{command}{f'-{number}' if number > 1 else ''}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ToolError(
                f"cannot make {folder}: {error.strerror}", "name another --output-dir", ExitCode.ENVIRONMENT
            ) from error
        return folder
    raise ToolError(f"{parent} has a hundred runs of this second", "wait a second")


def find(parent: Path, name: str) -> Path:
    """Return the folder of the run NAME, which may be its path; "last" is the youngest.

    ToolError (INPUT) where there is none.
    """
    if "/" in name and (Path(name) / PLAN).is_file():
        return Path(name).resolve()
    there = sorted(path.parent.name for path in parent.glob(f"*/{PLAN}"))
    if name == "last" and there:
        name = there[-1]
    if name not in there:
        known = f"there are {', '.join(there[-5:])}" if there else "there is none yet"
        raise ToolError(f"no run '{name}' in {parent}; {known}", "or name its --output-dir", ExitCode.INPUT)
    return parent / name


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep the plan in the run's folder."""
    (folder / PLAN).write_text(to_json(asdict(plan)), "utf-8")


def to_json(record: Mapping[str, Any]) -> str:
    """Return a record as a file has it."""
    return json.dumps(record, indent=2) + "\n"


def read_plan(folder: Path) -> Plan:
    """Return the plan of a run; ToolError (INPUT) where it is damaged."""
    try:
        return Plan(**json.loads((folder / PLAN).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ToolError(
            f"{folder / PLAN} is no plan of a run: {error}", "start the run again", ExitCode.INPUT
        ) from error


def note(folder: Path, event: str, **words: Any) -> None:
    """Append an event to the run's state; a reader sees whole lines only."""
    record = {"event": event, "at": datetime.now(UTC).isoformat(timespec="seconds"), **words}
    with (folder / STATE).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")


def drop_cut_line(folder: Path) -> None:
    """Cut off a last event that a crash left half written, so that the next one is a line of its own."""
    path = folder / STATE
    if path.exists():
        whole, end, _ = path.read_bytes().rpartition(b"\n")
        path.write_bytes(whole + end)


def events(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a run so far; ToolError (INPUT) for a line that is none."""
    path = folder / STATE
    if not path.exists():
        return
    for number, line in jsonl.whole_lines(path, [], "an event", "remove that line"):
        try:
            yield jsonl.parse(line)
        except ValueError as error:
            raise ToolError(f"{path}:{number}: {error}", "remove that line", ExitCode.INPUT) from error
