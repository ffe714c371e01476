"""The picture of a prediction: timings, model and interval over the number of CPUs, both logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import drawing
from hotplug_timer.predict.fit import Forecast, forecast
from hotplug_timer.predict.groups import Group, Roles, Series, group
from hotplug_timer.predict.outlook import Outlook, proportional

KINDS = (".svg", ".png")
#: Sizes a curve is drawn through, each of which costs a profile.
SIZES = 9
#: Okabe and Ito's colours, which those who cannot tell red from green tell apart too.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
WIDTH, HEIGHT = 5.5, 4.2
#: Numbers on the axis of CPUs that are closer than this factor run into each other.
APART = 1.25


def check_path(path: Path) -> None:
    """Refuse a picture that cannot be drawn (ToolError, USAGE) or written (ENVIRONMENT), before the fit."""
    if path.suffix not in KINDS:
        raise ToolError(
            f"--plot {path}: not a picture this can draw", f"name it {' or '.join(KINDS)}", ExitCode.USAGE
        )
    is_new = not path.exists()
    try:
        # Opening is the only check that knows all reasons; to append leaves what is there as it is.
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def write_picture(outlook: Outlook, roles: Roles, path: Path) -> None:
    """Draw an outlook, one panel for each operation; ToolError (ENVIRONMENT) when it cannot be written."""
    groups = group(outlook.timings, roles)
    operations = list(dict.fromkeys(found.operation for found in outlook.predictions))
    variants = list(dict.fromkeys(found.variant for found in outlook.predictions))
    sizes = [outlook.cpus, *(timing.cpus for timing in outlook.timings)]
    with mpl.rc_context(drawing.RC):
        figure = Figure(figsize=(WIDTH * len(operations), HEIGHT), layout="constrained")
        panels = figure.subplots(1, len(operations), squeeze=False)[0]
        for axes, operation in zip(panels, operations, strict=True):
            for one in groups:
                for variant in (name for found, name in one.series if found == operation):
                    _draw(axes, one, (operation, variant), outlook, variants.index(variant))
            _style(axes, operation, sizes, outlook.emulated)
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
        except OSError as error:
            raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ToolError:
    return ToolError(f"cannot write {path}: {error.strerror}", "name another --plot", ExitCode.ENVIRONMENT)


def _draw(axes: Axes, one: Group, series: Series, outlook: Outlook, index: int) -> None:
    color = COLORS[index % len(COLORS)]
    marker = drawing.marker(index)
    mine = [timing for timing in one.of(*series) if timing.variant == series[1]]
    axes.plot(
        [timing.cpus for timing in mine],
        [timing.seconds for timing in mine],
        marker,
        color=color,
        label=series[1],
    )
    sizes = curve_sizes([*(timing.cpus for timing in mine), outlook.cpus])
    expected = [_at(one, series, size) for size in sizes]
    axes.plot(sizes, [one.seconds for one in expected], color=color, linewidth=1.2)
    lows, highs = [one.interval.low for one in expected], [one.interval.high for one in expected]
    axes.fill_between(sizes, lows, highs, color=color, alpha=0.15, linewidth=0)
    end = next(found for found in outlook.predictions if (found.operation, found.variant) == series).forecast
    axes.errorbar(
        [outlook.cpus],
        [end.seconds],
        yerr=[[end.seconds - end.interval.low], [end.interval.high - end.seconds]],
        fmt=marker,
        color=color,
        markerfacecolor="white",
        capsize=3,
    )


def curve_sizes(cpus: Sequence[int]) -> list[int]:
    """Return numbers of CPUs from the least to the most of these, evenly on a logarithmic axis."""
    return sorted({round(size) for size in np.geomspace(min(cpus), max(cpus), SIZES)})


def _at(one: Group, series: Series, cpus: int) -> Forecast:
    like = one.of(*series)[-1]
    return forecast(one.fit, one.work(series, cpus, proportional(like, cpus)))


def _style(axes: Axes, operation: str, sizes: Sequence[int], emulated: bool) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        )
        axis.set_minor_formatter(NullFormatter())
    axes.set_xticks(readable(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title(f"{operation}: measured (filled), predicted (open), 95% interval", fontsize=9)
    axes.set_xlabel("CPUs")
    axes.set_ylabel("seconds (emulated)" if emulated else "seconds")
    axes.grid(linewidth=0.4, alpha=0.5)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def readable(sizes: Sequence[int]) -> list[int]:
    """Return sizes far enough apart on a logarithmic axis to be read; the first is among them."""
    kept: list[int] = []
    for size in sizes:
        if all(max(size, other) > APART * min(size, other) for other in kept):
            kept.append(size)
    return sorted(kept)
