"""A row for each planned host, for people, tickets and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

from jinja2 import Environment

from hotplug_common.tables import (
    NONE,
    Column,
    Kind,
    Record,
    Sheet,
    Table,
    significant,
    to_csv,
    to_json,
    to_markdown,
)
from hotplug_host.lease import Lease
from smt_fleet.outcome import DONE, Host, Outcome, Verdict

#: Verdicts of hosts whose last message is of something that was mended since.
QUIET = (*DONE, Verdict.RUNNING)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>
body { font: 16px/1.4 system-ui, sans-serif; margin: 1rem }
div { overflow-x: auto }
table { border-collapse: collapse }
th, td { border: 1px solid #767676; padding: .3em .6em; text-align: left; vertical-align: top }
</style></head><body><main>
<h1>{{ title }}</h1>
{% for line in sheet.lead %}<p>{{ line }}</p>
{% endfor %}{% for table in sheet.tables %}<div tabindex="0"><table><thead><tr>
{% for heading in table.headings %}<th scope="col">{{ heading }}</th>{% endfor %}</tr></thead><tbody>
{% for row in table.cells %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>{% endfor %}
</main></body></html>
"""


def sheet(run: str, found: Outcome, now: datetime | None = None) -> Sheet:
    """Return the table of a run's hosts, with its counts above; ages are those at NOW."""

    def record(host: Host) -> Record:
        verdict = found.verdict(host)
        sign = _lease(host, now) if host.held else None
        return {
            "host": host.name,
            "verdict": verdict.value,
            "phase": None if verdict in DONE else host.phase or None,
            "release_before": host.release_before or None,
            "release_after": host.release_after or None,
            "online_before": host.online_before or None,
            "online_after": host.online_after or None,
            "level_before": host.level_before or None,
            "level_after": host.level_after or None,
            "switch_seconds": host.seconds,
            "measured_seconds": host.medians or None,
            "health": host.health or None,
            "lock": sign and sign.words(),
            "message": None if verdict in QUIET else host.message.removeprefix(f"{host.name}: ") or None,
        }

    def words(name: str, key: str, kind: Kind = Kind.WORDS) -> Column[Record]:
        return Column(name, lambda row: str(row[key] or NONE), kind)

    def seconds(row: Record) -> str:
        return NONE if row["switch_seconds"] is None else f"{row['switch_seconds']:.1f} s"

    columns = [
        words("host", "host"),
        words("kernel before", "release_before"),
        words("CPUs before", "online_before"),
        words("SMT before", "level_before"),
        words("kernel after", "release_after"),
        words("CPUs after", "online_after"),
        words("SMT after", "level_after"),
        Column("switch", seconds),
        Column("measured", lambda row: _measured(row) or NONE, Kind.TEXT),
        words("health", "health", Kind.TEXT),
        words("verdict", "verdict"),
        words("phase", "phase"),
        words("lock", "lock"),
        words("message", "message", Kind.TEXT),
    ]
    rows = [record(host) for host in found.hosts]
    counts = Counter(row["verdict"] for row in rows)
    lead = f"{run}: {', '.join(f'{number} {name}' for name, number in counts.items()) or 'no host yet'}"
    return Sheet(
        [Table("hosts", columns, rows, record=dict, flat=_flat)],
        lead=[lead],
        facts={"run": run, "over": found.over, "exit_code": found.code if found.over else None},
    )


def _measured(row: Record) -> str:
    """Return the seconds that were measured of each kernel, in words."""
    measured = row["measured_seconds"]
    assert measured is None or isinstance(measured, Mapping)  # noqa: S101 - as it was made above
    return "; ".join(
        f"{operation}: {', '.join(f'{kernel} {significant(of, 3)} s' for kernel, of in by_kernel.items())}"
        for operation, by_kernel in (measured or {}).items()
    )


def _flat(row: Record) -> Record:
    return {**row, "measured_seconds": _measured(row) or None}


def _lease(host: Host, now: datetime | None) -> Lease | None:
    """Return the lease of a host's lock as the run knows it: what a unit there renews, it does not see."""
    if not host.renewed or host.lease is None:
        return None
    age = (now or datetime.now(UTC)) - datetime.fromisoformat(host.renewed)
    return Lease(max(age.total_seconds(), 0.0), host.lease)


def files(run: str, found: Outcome) -> dict[str, str]:
    """Return the files of a run's summary, name to content."""
    table = sheet(run, found)
    page = Environment(autoescape=True).from_string(PAGE)
    return {
        "summary.md": to_markdown(table),
        "summary.csv": to_csv(table),
        "summary.json": to_json(table),
        "summary.html": page.render(title=f"smt-fleet {run}", sheet=table),
        "failed.txt": "".join(f"{name}\n" for name in found.pending),
    }
