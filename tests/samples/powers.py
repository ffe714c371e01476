#!/usr/bin/env python3
"""How often the history finds what is there, and what is not: simulated series, one boot a night.

.venv/bin/python -m tests.samples.powers [SERIES] prints the figures of the guide, history-power.md:
300 series of each kind take some minutes on two cores.

The noise is the night's: more boots on the night after a suspect one have it all alike. Where boots differ by
themselves, more of them confirm better than here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from hotplug_timer.history.changes import CONFIRM_BOOTS, MIN_POINTS, Findings, Nights, search
from tests.samples.histories import DAYS, NOISES, nights

#: Nights before a step.
BEFORE = 60


def lived(
    seconds: Sequence[float], kernels: Sequence[int] = (), *, since: int = MIN_POINTS
) -> Iterator[Findings]:
    """Return what is found on each night from SINCE on; after a suspect one there are several boots."""
    boots = [1] * (since - 1)
    found: Findings | None = None
    for night in range(since, len(seconds) + 1):
        boots.append(1 + CONFIRM_BOOTS if found and found.suspect else 1)
        found = search(Nights(seconds, boots, kernels).first(night))
        yield found


def finds_step(seed: int, *, percent: float, sd: float, after: int, kernels: Sequence[int] = ()) -> bool:
    """Whether a step is known so many nights after it, and to within five nights of where it was."""
    seconds = nights(
        seed, NOISES["independent"], count=BEFORE + after, step_at=BEFORE, step=1 + percent / 100, sd=sd
    )
    *_, last = lived(seconds, kernels, since=BEFORE)
    return any(abs(change.at - BEFORE) <= 5 and change.percent > 0 for change in last.changes)


def finds_creep(seed: int, *, percent: float, sd: float) -> bool:
    """Whether seconds that grew evenly over all nights are known to have grown, as steps or as a creep."""
    noise = nights(seed, NOISES["independent"], sd=sd)
    daily = math.log1p(percent / 100) / (DAYS - 1)
    seconds = [one * math.exp(daily * night) for night, one in enumerate(noise)]
    return any(change.percent > 0 for change in search(Nights(seconds)).changes)


def raises_alarm(seed: int, *, noise: str, sd: float, kernels: Sequence[int] = ()) -> bool:
    """Whether any change at all is found on any night, where nothing changes."""
    return any(found.changes for found in lived(nights(seed, NOISES[noise], sd=sd), kernels))


@dataclass(frozen=True)
class Figure:
    """A question to simulated series, and the percentage of yes that is wanted: at least, or at most."""

    title: str
    ask: Callable[[int], bool]
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, percent: float) -> bool:
        """Whether a percentage is what is wanted."""
        return (self.at_least is None or percent >= self.at_least) and (
            self.at_most is None or percent <= self.at_most
        )


FORTNIGHTLY = tuple(range(14, DAYS, 14))
WEEKLY = tuple(range(BEFORE % 7, DAYS, 7))
FIGURES = {
    figure.title: figure
    for figure in (
        Figure(
            "step of 10% at 5% noise, after 10 nights", partial(finds_step, percent=10, sd=0.05, after=10), 75
        ),
        Figure(
            "step of 20% at 10% noise, after 10 nights",
            partial(finds_step, percent=20, sd=0.10, after=10),
            65,
        ),
        Figure("step of 5% at 2% noise, after 10 nights", partial(finds_step, percent=5, sd=0.02, after=10)),
        Figure("step of 5% at 5% noise, after 10 nights", partial(finds_step, percent=5, sd=0.05, after=10)),
        Figure("step of 5% at 5% noise, after 20 nights", partial(finds_step, percent=5, sd=0.05, after=20)),
        Figure("step of 20% at 5% noise, after 2 nights", partial(finds_step, percent=20, sd=0.05, after=2)),
        Figure(
            "step of 5% at 5% noise, at the one new kernel, after 20 nights",
            partial(finds_step, percent=5, sd=0.05, after=20, kernels=(BEFORE,)),
            70,
        ),
        Figure(
            "step of 5% at 5% noise, at one of weekly kernels, after 20 nights",
            partial(finds_step, percent=5, sd=0.05, after=20, kernels=WEEKLY),
        ),
        Figure("creep of 10% in 90 nights at 5% noise", partial(finds_creep, percent=10, sd=0.05), 80),
        Figure("creep of 10% in 90 nights at 10% noise", partial(finds_creep, percent=10, sd=0.10)),
        *(
            Figure(
                f"alarm on any of 81 nights, {name}, a new kernel every 14 nights",
                partial(raises_alarm, noise=name, sd=0.05, kernels=FORTNIGHTLY),
                at_most=25 if name == "resembling" else 7,
            )
            for name in NOISES
        ),
        Figure(
            "alarm on any of 81 nights, independent at 2% noise",
            partial(raises_alarm, noise="independent", sd=0.02),
            at_most=7,
        ),
        Figure(
            "alarm on any of 81 nights, resembling at 10% noise",
            partial(raises_alarm, noise="resembling", sd=0.10),
            at_most=25,
        ),
    )
}


def percentage(figure: Figure, series: int) -> float:
    """Return in how many of 100 series the answer is yes."""
    return 100 * sum(map(figure.ask, range(series))) / series


def main(series: int) -> None:
    """Print all figures, as a table in Markdown."""
    sys.stdout.write(f"| {series} series of each | % | wanted |\n|---|---|---|\n")
    with ProcessPoolExecutor(2) as pool:
        for figure, percent in zip(
            FIGURES.values(), pool.map(partial(percentage, series=series), FIGURES.values()), strict=True
        ):
            wanted = f"at least {figure.at_least}" if figure.at_least else ""
            wanted = f"at most {figure.at_most}" if figure.at_most else wanted
            sys.stdout.write(f"| {figure.title} | {percent:.0f} | {wanted} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 300)
