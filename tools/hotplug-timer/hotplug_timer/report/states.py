"""Time per cpuhp state of several variants: one picture and the table below it.

Time is by the clock: CPUs that go together share a state, and their own times add up to many times of
what it took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hotplug_common.tables import Column, Kind
from hotplug_timer import drawing
from hotplug_timer.report.text import short_seconds
from hotplug_timer.trace.states import SpentInState, State

#: Inches. A state has a line for its name, one for each variant, and a gap.
WIDTH, LINE, MARGIN = 4.5, 0.18, 0.5
#: States that are drawn, and that are in the table: the longest ones.
DRAWN, LISTED = 8, 20
#: What takes less than this share of the longest state's time has no bar to be seen.
MIN_SHARE = 0.005
#: Of the axis, for the figures behind the bars.
ROOM = 1.18


@dataclass(frozen=True)
class Times:
    """What the states of one variant took in so many transitions together. Times are in ns."""

    variant: str
    transitions: int
    spent: Mapping[State, SpentInState]

    def clock_s(self, state: State) -> float | None:
        """Return the seconds per transition in which a CPU was in the state; None when it did not run."""
        found = self.spent.get(state)
        return found.clock / 1e9 / self.transitions if found else None


def longest(times: Sequence[Times], most: int) -> list[State]:
    """Return the states by what they take in the variant in which they take longest, at most so many."""
    states = dict.fromkeys(state for one in times for state in one.spent)
    # Equally long ones in the order of their steps.
    return sorted(sorted(states), key=lambda state: -_most(times, state))[:most]


def drawn(times: Sequence[Times]) -> list[State]:
    """Return the states that the picture shows."""
    states = longest(times, DRAWN)
    least = MIN_SHARE * _most(times, states[0]) if states else 0.0
    return [state for state in states if _most(times, state) >= least]


def columns(times: Sequence[Times]) -> list[Column[State]]:
    """Return the table's columns, per transition: the state's two, and three for each variant."""
    names = ("by the clock (s)", "calls", "longest (s)")
    return [
        Column("step", lambda state: str(state[0])),
        Column("callback", lambda state: state[1], Kind.WORDS),
        *(
            Column(f"{one.variant}: {name}", partial(_cell, one, at))
            for one in times
            for at, name in enumerate(names)
        ),
    ]


def draw(times: Sequence[Times], variants: tuple[str, ...], title: str, emulated: bool, key: str) -> str:
    """Return the SVG element: a group of bars for each of the longest states, a bar for each variant."""
    states = drawn(times)
    lines = len(times) + 1.6
    with mpl.rc_context(drawing.RC):
        figure = Figure(figsize=(WIDTH, MARGIN + LINE * lines * len(states)), layout="constrained")
        axes = figure.add_subplot()
        for at, state in enumerate(states):
            _draw_state(axes, at * lines, state, times, variants)
        room = max((_most(times, state) for state in states), default=0.0) * ROOM
        axes.set_xlim(0, room or 1.0)
        axes.set_ylim(lines * max(len(states), 1), 0)
        _style(axes, emulated)
        return drawing.to_inline(figure, key, title, describe(times))


def describe(times: Sequence[Times]) -> str:
    """Return the picture in words, for those who cannot see it."""
    parts = []
    for state in drawn(times):
        took = ", ".join(f"{one.variant} {_text(one.clock_s(state), 'did not run')}" for one in times)
        parts.append(f"{state[1]}: {took}")
    return f"Seconds per transition of the longest states, by the clock. {'; '.join(parts)}."


def _most(times: Sequence[Times], state: State) -> float:
    return max(one.clock_s(state) or 0.0 for one in times)


def _cell(one: Times, at: int, state: State) -> str:
    return _cells(one, state)[at]


def _cells(one: Times, state: State) -> list[str]:
    found = one.spent.get(state)
    if found is None:
        return ["-", "-", "-"]
    calls = found.times / one.transitions
    return [
        _text(one.clock_s(state)),
        f"{calls:g}" if calls == int(calls) else f"{calls:.1f}",
        _text(found.longest / 1e9),
    ]


def _text(seconds: float | None, nothing: str = "-") -> str:
    return nothing if seconds is None else f"{seconds:.6f}"


def _draw_state(
    axes: Axes, top: float, state: State, times: Sequence[Times], variants: tuple[str, ...]
) -> None:
    _write(axes, 0, top + 0.4, state[1], 9)
    for line, one in enumerate(times, start=1):
        seconds = one.clock_s(state)
        color = drawing.SERIES[drawing.series(variants, one.variant)]
        axes.barh(top + line + 0.4, seconds or 0.0, height=0.8, color=color)
        shown = "did not run" if seconds is None else short_seconds(seconds)
        _write(axes, seconds or 0.0, top + line + 0.4, shown, 8)


def _write(axes: Axes, x: float, y: float, text: str, size: float) -> None:
    axes.annotate(
        text, (x, y), (3, 0), textcoords="offset points", va="center", color=drawing.INK, fontsize=size
    )


def _style(axes: Axes, emulated: bool) -> None:
    axes.set_yticks([])
    axes.set_xlabel(
        f"seconds per transition, by the clock{' (emulated)' if emulated else ''}", color=drawing.INK
    )
    drawing.style_axes(axes, "x")
