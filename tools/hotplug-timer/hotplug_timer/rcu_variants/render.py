"""The table of RCU variants, as it is printed and written to files."""

from __future__ import annotations

from pathlib import Path

from hotplug_common.files import write_files
from hotplug_common.tables import (
    NONE,
    Column,
    Kind,
    Sheet,
    significant,
    to_csv,
    to_json,
    to_markdown,
)
from hotplug_common.tables import Table as Printed
from hotplug_host.operations import DIRECTIONS
from hotplug_timer.compare.text import flat_entry
from hotplug_timer.rcu_variants.table import Line, Table
from hotplug_timer.rcu_variants.variants import LINK, PUBLISHED_N

SCHEMA = "hotplug-timer/rcu-variants/1"
NAME = "rcu-variants"
#: Count name to its column.
COUNTED = {
    "synchronize_rcu": "waits",
    "synchronize_rcu_expedited": "expedited",
    "stop_machine": "rendezvous",
    "domain_rebuild": "rebuilds",
}


def write_table(table: Table, directory: Path) -> list[Path]:
    """Write Markdown, JSON and CSV, and return their paths; ToolError (ENVIRONMENT) when that fails."""
    whole = sheet(table)
    texts = {".md": to_markdown(whole), ".json": to_json(whole), ".csv": to_csv(whole)}
    return write_files(directory, {f"{NAME}{suffix}": text for suffix, text in texts.items()}, "table")


def sheet(table: Table) -> Sheet:
    """Return what is printed: a table for each direction, with the conditions of both."""
    comparison, shape, source = table.comparison, table.comparison.shape, table.source
    off, on = (_printed(table, direction) for direction in DIRECTIONS)
    return Sheet(
        tables=(off, on),
        lead=(conditions(table),),
        notes=(_remarks(table),),
        facts={
            "schema": SCHEMA,
            "machine": shape.machine,
            "cpu_model": table.cpu_model,
            "hostname": table.hostname,
            "emulated": comparison.emulated,
            "cpus": shape.cpus,
            "cores": shape.cores,
            "threads_per_core": shape.threads_per_core,
            "switched": table.switched,
            "boot_method": table.boot_method,
            "published": {
                "link": LINK,
                "kernel": source.kernel,
                "system": source.system,
                "cpus": source.cpus,
                "switched": source.toggled,
                "n": PUBLISHED_N,
            },
        },
        remarks={"warnings": list(comparison.warnings), "notices": list(comparison.notices)},
        doubts=(*comparison.warnings, *comparison.notices),
    )


def conditions(table: Table) -> str:
    """Return where and how the rows were measured, and where the published figures are from."""
    shape, source = table.comparison.shape, table.source
    emulated = ", emulated: its seconds are not hardware's" if table.comparison.emulated else ""
    return (
        f"Measured: {table.switched} of {shape.cpus} CPUs offline and online one by one, {shape.cores} cores"
        f" x SMT{shape.threads_per_core}, {table.cpu_model}{emulated}; all booted by {table.boot_method}."
        f" Published: {source.toggled} of {source.cpus} CPUs, {source.system}, {source.kernel}, averages of"
        f" {PUBLISHED_N}, {LINK}"
    )


def _remarks(table: Table) -> str:
    """Return what the rows are, under which kernels and how many boots, and what was counted."""
    rows = "; ".join(
        f"({line.variant.number}) {line.variant.title}: {line.kernel}, booted {line.row.spread.boots}x"
        for line in table.of("off")
    )
    return (
        f"Rows: {rows}. Counts are per switch of all {table.switched} CPUs, never timed: waits are calls of"
        " synchronize_rcu(); expedited those of synchronize_rcu_expedited(), which is what every wait becomes"
        " with rcu_expedited."
    )


def _printed(table: Table, direction: str) -> Printed[Line]:
    unit = "s, emulated" if table.comparison.emulated else "s"

    def count(name: str) -> Column[Line]:
        return Column(COUNTED[name], lambda line: _count(line, name))

    def entry(line: Line) -> dict[str, object]:
        return {
            "direction": line.direction,
            "row": line.variant.number,
            "kernel": line.kernel,
            "rcu_expedited": line.variant.expedited,
            **flat_entry(table.comparison, line.row),
            "published_mean_s": line.published.seconds,
            "published_decrease_percent": line.published.decrease_percent,
        }

    return Printed(
        "rows",
        (
            Column("", lambda line: f"({line.variant.number})"),
            Column("variant", lambda line: line.variant.name, Kind.WORDS),
            Column(f"average ({unit})", lambda line: significant(line.row.summary.mean)),
            Column("min to max", _extremes),
            Column("n", lambda line: str(line.row.summary.n)),
            Column(
                "decrease",
                lambda line: _percent(line.row.effect.decrease_percent if line.row.effect else None),
            ),
            Column(
                "verdict",
                lambda line: line.row.effect.verdict if line.row.effect else "baseline",
                Kind.WORDS,
            ),
            *(count(name) for name in table.comparison.count_names if name in COUNTED),
            Column("published (s)", lambda line: str(line.published.seconds)),
            Column("published decrease", lambda line: _percent(line.published.decrease_percent)),
        ),
        table.of(direction),
        f"{table.switched} CPUs {'offline' if direction == 'off' else 'online'}",
        record=entry,
        flat=entry,
    )


def _extremes(line: Line) -> str:
    summary = line.row.summary
    return f"{significant(summary.minimum)} to {significant(summary.maximum)}"


def _percent(value: float | None) -> str:
    return "baseline" if value is None else f"{value:.1f}%"


def _count(line: Line, name: str) -> str:
    value = line.counts.typical(name) if line.counts else None
    return NONE if value is None else str(value)
