"""What a history stands at as metrics of Prometheus, in a file for node_exporter's textfile collector."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.text import printable
from hotplug_timer.history.series import VERDICTS, Outlook, Series

#: The labels that name a series: what its key holds.
LABELS = (
    "host",
    "variant",
    "operation",
    "machine",
    "cpus",
    "threads_per_core",
    "emulated",
    "boot_method",
    "driver",
    "rcu_expedited",
    "clocksource",
)
SUFFIX = ".prom"


def check_path(path: Path) -> None:
    """Refuse (ToolError, USAGE) a file without the ending that the collector looks for."""
    if path.suffix != SUFFIX:
        raise ToolError(
            f"{path}: node_exporter reads {SUFFIX} files only", f"end it in {SUFFIX}", ExitCode.USAGE
        )


def write_metrics(outlook: Outlook, path: Path) -> None:
    """Write the file as a whole: whoever reads meanwhile has the one before. ToolError when that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(path), _registry(outlook))
    except OSError as error:
        raise ToolError(
            f"cannot write {path}: {error.strerror}", "name another --metrics", ExitCode.ENVIRONMENT
        ) from error


def _registry(outlook: Outlook) -> CollectorRegistry:
    registry = CollectorRegistry()

    def gauge(name: str, text: str, *more: str) -> Gauge:
        return Gauge(f"hotplug_timer_{name}", text, (*LABELS, *more), registry=registry)

    median = gauge("median_seconds", "Median of the newest run's timed transitions.")
    level = gauge("level_seconds", "Median of the nights since the last step.")
    samples = gauge("samples", "Timed transitions of the newest run.")
    started = gauge("run_start_time_seconds", "When the newest successful run started.")
    runs = gauge("runs", "Nights with a successful run in the history.")
    change = gauge("change_ratio", "Relative change of the level that the verdict is about; 0 without one.")
    verdict = gauge("verdict", "1 for the verdict that holds, 0 for the others.", "verdict")
    counts = gauge("transition_count", "Median count per transition of the newest run.", "count")
    for series in outlook.series:
        labels = _labels(series)
        median.labels(*labels).set(series.last.result.median_s)
        level.labels(*labels).set(series.level_s)
        samples.labels(*labels).set(series.last.result.n)
        started.labels(*labels).set(series.last.time.timestamp())
        runs.labels(*labels).set(len(series.points))
        change.labels(*labels).set(series.change.percent / 100 if series.change else 0)
        for one in VERDICTS:
            verdict.labels(*labels, one).set(one == series.verdict)
        for name, value in series.last.result.counts.items():
            counts.labels(*labels, printable(name)).set(value)
    _add_failures(outlook, registry)
    return registry


def _add_failures(outlook: Outlook, registry: CollectorRegistry) -> None:
    words = ("host", "variant")
    total = Gauge("hotplug_timer_failed_runs", "Failed runs in the history.", words, registry=registry)
    newest = Gauge(
        "hotplug_timer_newest_run_failed", "Whether the newest run failed.", words, registry=registry
    )
    for series in outlook.series:
        for gauge in (total, newest):
            gauge.labels(printable(series.key.host), printable(series.key.variant)).set(0)
    for entry in outlook.failures:
        total.labels(printable(entry.host), printable(entry.variant)).inc()
        newest.labels(printable(entry.host), printable(entry.variant)).set(0)
    for entry in outlook.failed:
        newest.labels(printable(entry.host), printable(entry.variant)).set(1)


def _labels(series: Series) -> tuple[str, ...]:
    key = series.key
    values = {"host": key.host, "variant": key.variant, "operation": key.operation, **vars(key.conditions)}
    return tuple(_word(values[name]) for name in LABELS)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else printable(str(value))
