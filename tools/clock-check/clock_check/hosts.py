"""The audits of many hosts as one table, a row per host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock_check.schema import AUDIT
from hotplug_common.files import write_files
from hotplug_common.tables import NONE, Column, Kind, Sheet, Table, to_json, to_markdown
from hotplug_host.clocks.audit import SCHEMA as AUDIT_SCHEMA
from hotplug_host.clocks.table import shown
from hotplug_host.errors import ExitCode, ToolError

SCHEMA = "clock-hosts/1"
NAME = "clocks"


@dataclass(frozen=True)
class HostAudit:
    """One host's audit, checked against the schema, under the name of its file."""

    name: str
    audit: Mapping[str, Any]

    @property
    def current(self) -> str | None:
        """Return the clocksource in use, after one was applied where one was."""
        applied = self.audit["applied"]
        current: str | None = applied["now"] if applied else self.audit["clocksource"]["current"]
        return current

    @property
    def recommended(self) -> str | None:
        """Return the clocksource that it should use; None where none can be relied on."""
        name: str | None = self.audit["recommendation"]["clocksource"]
        return name


def read_audits(paths: Sequence[Path]) -> tuple[HostAudit, ...]:
    """Read what `audit --json` printed on hosts, one file for each; ToolError (INPUT) for anything else."""
    return tuple(HostAudit(path.stem, _read(path)) for path in paths)


def sheet(hosts: Sequence[HostAudit]) -> Sheet:
    """Return what is printed of all of them: a sentence, and a row for each."""
    return Sheet(
        tables=(Table("hosts", COLUMNS, hosts, record=lambda host: {"name": host.name, **host.audit}),),
        lead=(summary(hosts),),
        facts={"schema": SCHEMA},
    )


def summary(hosts: Sequence[HostAudit]) -> str:
    """Say in one sentence how many hosts use what they should."""
    lost = [host.name for host in hosts if host.recommended is None]
    other = [host.name for host in hosts if host.recommended not in (None, host.current)]
    parts = [f"{len(hosts) - len(lost) - len(other)} of {len(hosts)} hosts use the clocksource they should"]
    parts += [f"another one is better for {', '.join(other)}"] if other else []
    parts += [f"none can be relied on at {', '.join(lost)}"] if lost else []
    return "; ".join(parts)


def write_table(hosts: Sequence[HostAudit], directory: Path) -> list[Path]:
    """Write Markdown and JSON, and return their paths; ToolError (ENVIRONMENT) when that fails."""
    whole = sheet(hosts)
    return write_files(directory, {f"{NAME}.md": to_markdown(whole), f"{NAME}.json": to_json(whole)}, "table")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        audit = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ToolError(
            f"cannot read {path}: {error.strerror}", "name files of audit --json", ExitCode.INPUT
        ) from error
    except (ValueError, RecursionError):
        audit = None
    if not isinstance(audit, dict) or audit.get("schema") != AUDIT_SCHEMA:
        raise ToolError(f"{path} is no {AUDIT_SCHEMA}", "name files of audit --json", ExitCode.INPUT)
    problem = AUDIT.problem_of("audit", audit)
    if problem is not None:
        raise ToolError(
            f"{path}: {problem}", f"name what audit --json printed ({AUDIT_SCHEMA})", ExitCode.INPUT
        )
    return audit


def _others(host: HostAudit) -> str:
    available = host.audit["clocksource"]["available"]
    return " ".join(name for name in available if name != host.current) or NONE


def _invariant(host: HostAudit) -> str:
    tsc = host.audit["tsc"]
    return "yes" if tsc["invariant"] else "no" if tsc["flags"] else NONE


def _messages(host: HostAudit) -> str:
    log = host.audit["log"]
    return str(len(log["messages"])) if log["readable"] else "unknown"


def _cost(choose: Callable[[Iterable[int]], int]) -> Callable[[HostAudit], str]:
    """Return what shows the us of a call; CHOOSE picks one of the numbers of threads that were measured."""

    def show(host: HostAudit) -> str:
        costs = _costs(host.audit)
        return shown(costs[choose(costs)]) if costs else NONE

    return show


def _went_back(host: HostAudit) -> str:
    looked = [one["violations"] for one in host.audit["measured"] if one["violations"] is not None]
    return str(sum(looked)) if looked else NONE


def _applied(host: HostAudit) -> str:
    applied = host.audit["applied"]
    return f"{applied['now']} (was {applied['before']})" if applied else NONE


def _costs(audit: Mapping[str, Any]) -> dict[int, float]:
    """Return what a call cost with the clocksource found (us), by number of threads."""
    found: dict[int, float] = {}
    for one in audit["measured"]:
        threads = re.fullmatch(r"scale/vdso/(\d+)-threads?", one["operation"])
        same = one["clocksource"] == audit["clocksource"]["current"]
        if threads and same and one["us_per_call"] is not None:
            found[int(threads[1])] = one["us_per_call"]
    return found


COLUMNS = (
    Column[HostAudit]("host", lambda host: host.name, Kind.WORDS),
    Column[HostAudit](
        "kernel",
        lambda host: f"{host.audit['host']['kernel_release']} {host.audit['host']['machine']}",
        Kind.WORDS,
    ),
    Column[HostAudit]("hypervisor", lambda host: host.audit["hypervisor"] or "none", Kind.WORDS),
    Column[HostAudit]("clocksource", lambda host: host.current or NONE, Kind.WORDS),
    Column("others", _others, Kind.WORDS),
    Column("TSC invariant", _invariant, Kind.WORDS),
    Column("messages", _messages),
    Column("us/call, 1 thread", _cost(min)),
    Column("us/call, most threads", _cost(max)),
    Column("went back", _went_back),
    Column("applied", _applied, Kind.WORDS),
    Column[HostAudit]("recommended", lambda host: host.recommended or "none", Kind.WORDS),
    Column[HostAudit]("why", lambda host: host.audit["recommendation"]["reason"], Kind.TEXT),
)
