"""The audits of many hosts as one table, a row per host."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock_check.schema import AUDIT
from hotplug_host.clocks.audit import SCHEMA as AUDIT_SCHEMA
from hotplug_host.clocks.table import shown
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.compare.text import NONE, markdown_table, markdown_text, write_files

SCHEMA = "clock-hosts/1"
NAME = "clocks"
HEADER = [
    "host",
    "kernel",
    "hypervisor",
    "clocksource",
    "others",
    "TSC invariant",
    "messages",
    "us/call, 1 thread",
    "us/call, most threads",
    "went back",
    "applied",
    "recommended",
    "why",
]


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


def to_markdown(hosts: Sequence[HostAudit]) -> str:
    """Return a sentence on all of them, and the table, in GitHub's Markdown."""
    return f"{markdown_text(summary(hosts))}\n\n{markdown_table(HEADER, [_cells(host) for host in hosts])}"


def to_json(hosts: Sequence[HostAudit]) -> str:
    """Return all audits as one JSON object."""
    rows = [{"name": host.name, **host.audit} for host in hosts]
    return json.dumps({"schema": SCHEMA, "hosts": rows}, indent=2) + "\n"


def summary(hosts: Sequence[HostAudit]) -> str:
    """Say in one sentence how many hosts use what they should."""
    lost = [host.name for host in hosts if host.recommended is None]
    other = [host.name for host in hosts if host.recommended not in (None, host.current)]
    parts = [f"{len(hosts) - len(lost) - len(other)} of {len(hosts)} hosts use the clocksource they should"]
    parts += [f"another one is better for {', '.join(other)}"] if other else []
    parts += [f"none can be relied on at {', '.join(lost)}"] if lost else []
    return "; ".join(parts)


def write_table(hosts: Sequence[HostAudit], directory: Path) -> tuple[Path, ...]:
    """Write Markdown and JSON, and return their paths; ToolError (ENVIRONMENT) when that fails."""
    texts = {f"{NAME}.md": to_markdown(hosts), f"{NAME}.json": to_json(hosts)}
    return write_files(directory, texts)


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


def _cells(host: HostAudit) -> list[str]:
    audit = host.audit
    clocks, applied, log = audit["clocksource"], audit["applied"], audit["log"]
    costs = _costs(audit)
    looked = [one["violations"] for one in audit["measured"] if one["violations"] is not None]
    return [
        host.name,
        f"{audit['host']['kernel_release']} {audit['host']['machine']}",
        audit["hypervisor"] or "none",
        host.current or NONE,
        " ".join(name for name in clocks["available"] if name != host.current) or NONE,
        "yes" if audit["tsc"]["invariant"] else "no" if audit["tsc"]["flags"] else NONE,
        str(len(log["messages"])) if log["readable"] else "unknown",
        shown(costs[min(costs)]) if costs else NONE,
        shown(costs[max(costs)]) if costs else NONE,
        str(sum(looked)) if looked else NONE,
        f"{applied['now']} (was {applied['before']})" if applied else NONE,
        host.recommended or "none",
        audit["recommendation"]["reason"],
    ]


def _costs(audit: Mapping[str, Any]) -> dict[int, float]:
    """Return what a call cost with the clocksource found (us), by number of threads."""
    found: dict[int, float] = {}
    for one in audit["measured"]:
        threads = re.fullmatch(r"scale/vdso/(\d+)-threads?", one["operation"])
        same = one["clocksource"] == audit["clocksource"]["current"]
        if threads and same and one["us_per_call"] is not None:
            found[int(threads[1])] = one["us_per_call"]
    return found
