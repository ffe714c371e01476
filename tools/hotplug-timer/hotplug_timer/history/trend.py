"""A series over time as a picture that follows the page's light or dark colours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import matplotlib as mpl
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hotplug_timer import drawing
from hotplug_timer.history.series import Series
from hotplug_timer.report.samples import HEIGHT, MAX_LARGE, WIDTH

#: A picture shows this many of the newest nights: more could not be told apart.
MAX_POINTS = 500
#: Room below the lowest and above the highest point, as a share of the highest: noise is to look like noise.
ROOM = 0.06


def draw(series: Series, variants: tuple[str, ...], key: str) -> str:
    """Return the SVG element: dots for nights, bars for levels, rules for changes, crosses for failures."""
    with mpl.rc_context(drawing.RC):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        first = max(len(series.points) - MAX_POINTS, 0)
        _draw_points(axes, series, variants, first)
        _draw_levels(axes, series, variants, first)
        _draw_failures(axes, series, first)
        _style(axes, series, first)
        return drawing.to_inline(figure, key, f"{series.key.name} over time", describe(series, first))


def is_shortened(series: Series) -> bool:
    """Whether there are more nights than are drawn."""
    return len(series.points) > MAX_POINTS


def describe(series: Series, first: int) -> str:
    """Return the picture in words, for those who cannot see it."""
    shown = series.points[first:]
    seconds = [point.result.median_s for point in shown]
    nights = "1 night" if len(shown) == 1 else f"{len(shown)} nights"
    emulated = " (emulated)" if series.key.conditions.emulated else ""
    parts = [
        f"Median seconds{emulated} of {nights} from {shown[0].time:%Y-%m-%d} to {shown[-1].time:%Y-%m-%d},"
        f" between {min(seconds):.3f} and {max(seconds):.3f}"
    ]
    parts += [
        f"from {series.points[change.at].time:%Y-%m-%d} on {change.percent:+.1f}%,"
        f" from {change.before_s:.3f} to {change.after_s:.3f}"
        for change in series.changes
        if change.at >= first
    ]
    failures = len(_failures(series, first))
    parts += [f"{failures} failed"] if failures else []
    return f"{'; '.join(parts)}."


def _draw_points(axes: Axes, series: Series, variants: tuple[str, ...], first: int) -> None:
    shown = series.points[first:]
    variant = series.key.variant
    axes.plot(
        _times([point.time for point in shown]),
        [point.result.median_s for point in shown],
        drawing.marker(variants.index(variant)),
        color=drawing.SERIES[drawing.series(variants, variant)],
        markersize=3.5 if len(shown) <= MAX_LARGE else 1.5,
        linestyle="none",
    )


def _draw_levels(axes: Axes, series: Series, variants: tuple[str, ...], first: int) -> None:
    edges = [0, *(step.at for step in series.steps), len(series.points)]
    levels = [(step.before_s, step.before_s) for step in series.steps]
    # A creep is a line from its first night to the newest one.
    levels += [
        (series.creep.before_s, series.creep.after_s) if series.creep else (series.level_s, series.level_s)
    ]
    color = drawing.SERIES[drawing.series(variants, series.key.variant)]
    for begin, end, level in zip(edges, edges[1:], levels, strict=False):
        if end > first:
            left, right = _times([series.points[max(begin, first)].time, series.points[end - 1].time])
            axes.plot([left, right], level, color=color, linewidth=1.4, zorder=3)
    for step in series.steps:
        if step.at >= first:
            at = _times([series.points[step.at].time])[0]
            axes.axvline(at, color=drawing.INK, linewidth=0.8, linestyle=(0, (3, 3)))


def _draw_failures(axes: Axes, series: Series, first: int) -> None:
    times = _times(_failures(series, first))
    if times:
        # At the foot of the picture, whatever the seconds are.
        foot = axes.get_xaxis_transform()
        axes.plot(times, [0.03] * len(times), "x", color=drawing.INK, markersize=5, transform=foot)


def _failures(series: Series, first: int) -> list[datetime]:
    begin = series.points[first].time
    return [entry.time for entry in series.failures if entry.time >= begin]


def _times(times: Sequence[datetime]) -> list[float]:
    return [float(dates.date2num(time)) for time in times]  # type: ignore[no-untyped-call]


def _style(axes: Axes, series: Series, first: int) -> None:
    seconds = [point.result.median_s for point in series.points[first:]]
    low, high = min(seconds), max(seconds)
    axes.set_ylim(max(low - ROOM * high, 0), high + ROOM * high)
    locator = dates.AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = dates.ConciseDateFormatter(locator, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    emulated = series.key.conditions.emulated
    axes.set_ylabel("seconds (emulated)" if emulated else "seconds", color=drawing.INK)
    axes.set_xlabel("when the run started (UTC)", color=drawing.INK)
    drawing.style_axes(axes, "y")
