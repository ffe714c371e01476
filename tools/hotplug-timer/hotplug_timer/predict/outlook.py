"""Predictions for one machine size, and what speaks against trusting them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hotplug_common.timings import Timing
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer.predict.fit import Forecast, forecast
from hotplug_timer.predict.groups import Group, Roles, group
from hotplug_timer.predict.model import POWER_OF, TERMS, Work, design_row

#: Beyond this many times the largest machine measured, or below the smallest's part, a prediction is far.
FAR = 2.0
#: A fit that is off by more than this factor somewhere is said to miss.
MISS = 1.5
#: An interval whose ends are this many times apart is said to be wide.
WIDE = 10.0


#: What it is about, and what to mind and to do.
Reservation = tuple[str, str]


@dataclass(frozen=True)
class Prediction:
    """One operation of one variant on a machine of `cpus` CPUs, of which `toggled` change."""

    operation: str
    variant: str
    cpus: int
    toggled: int
    forecast: Forecast
    sizes: tuple[int, ...]
    counted: bool
    told_apart: bool

    @property
    def largest_part(self) -> tuple[str, float] | None:
        """Return what costs most in the best fit, in words, and its share from 0 to 1.

        None where any part might be.
        """
        if not self.told_apart:
            return None
        kind, seconds = max(self.forecast.parts.items(), key=lambda part: part[1])
        return TERMS[kind].words, seconds / sum(self.forecast.parts.values())


@dataclass(frozen=True)
class Price:
    """What one event costs in seconds in the best fit, on the largest machine measured and on the other."""

    series: str
    words: str
    power: float
    measured_cpus: int
    measured_s: float
    predicted_s: float


@dataclass(frozen=True)
class Outlook:
    """What `predict` shows."""

    cpus: int
    emulated: bool
    timings: tuple[Timing, ...]
    predictions: tuple[Prediction, ...]
    prices: tuple[Price, ...]
    reservations: tuple[str, ...]


def look_out(timings: Sequence[Timing], cpus: int, toggled: int | None, roles: Roles) -> Outlook:
    """Predict every operation and variant; ToolError (USAGE) for a machine that cannot be.

    Without `toggled` the share of CPUs that changes is that of the largest machine measured.
    """
    if cpus < 2:
        raise ToolError(f"--cpus {cpus}: nothing can be switched there", "name 2 or more", ExitCode.USAGE)
    if toggled is not None and not 0 < toggled < cpus:
        raise ToolError(
            f"--toggled {toggled}: not between 1 and {cpus - 1}",
            "one CPU at least changes and one stays online",
            ExitCode.USAGE,
        )
    groups = [(one, list(predictions(one, cpus, toggled))) for one in group(timings, roles)]
    reservations = [text for one, found in groups for text in _reservations(one, found, cpus)]
    return Outlook(
        cpus,
        timings[0].emulated,
        tuple(timings),
        tuple(prediction for _, found in groups for prediction in found),
        tuple(price for one, _ in groups for price in _prices(one, cpus)),
        tuple(_merged(reservations, len(groups))),
    )


def predictions(one: Group, cpus: int, toggled: int | None) -> Iterator[Prediction]:
    """Predict what a group has timings of."""
    for operation, variant in one.series:
        mine = one.of(operation, variant)
        number = toggled or proportional(mine[-1], cpus)
        expected = forecast(one.fit, one.work((operation, variant), cpus, number))
        sizes = tuple(sorted({timing.cpus for timing in mine}))
        yield Prediction(operation, variant, cpus, number, expected, sizes, one.counted, told_apart(one))


def told_apart(one: Group) -> bool:
    """Whether the timings tell anything of how the time splits; if not, any split is as good."""
    return one.fit.rank > 1 or len(one.fit.kinds) == 1


def proportional(like: Timing, cpus: int) -> int:
    """Return how many of `cpus` CPUs change when the same share of them does as in a timing."""
    return min(cpus - 1, max(1, round(cpus * like.toggled / like.cpus)))


def _prices(one: Group, cpus: int) -> Iterator[Price]:
    fitted, largest = one.fit, one.sizes[-1]
    if not told_apart(one):
        return
    base = one.timings[-1].fqs_base
    for at, kind in enumerate(fitted.kinds):
        measured, predicted = (
            float(
                fitted.best.prices[at]
                * design_row(Work(size, {kind: 1.0}, base), [kind], fitted.best.powers)[0]
            )
            for size in (largest, cpus)
        )
        power = fitted.best.powers[POWER_OF[kind]]
        yield Price(_name(one), TERMS[kind].words, power, largest, measured, predicted)


def _name(one: Group) -> str:
    if one.counted:
        return "all counted"
    variants = dict.fromkeys(timing.variant for timing in one.timings)
    return f"{one.timings[0].operation} {', '.join(variants)}"


def _merged(found: Iterable[Reservation], groups: int) -> list[str]:
    """Return a line for each text, headed by what it is about: "all", or a list."""
    subjects: dict[str, dict[str, None]] = {}
    for subject, text in found:
        subjects.setdefault(text, {})[subject] = None
    return [
        f"{'all' if len(about) == groups > 1 else '; '.join(about)}: {text}"
        for text, about in subjects.items()
    ]


def _reservations(one: Group, predicted: Iterable[Prediction], cpus: int) -> Iterator[Reservation]:
    name = _name(one)
    yield from _about_size(name, one.sizes, cpus)
    yield from _about_data(name, one)
    yield from _about_fit(name, one)
    for found in predicted:
        interval = found.forecast.interval
        if interval.high > WIDE * interval.low:
            yield (
                f"{found.operation} {found.variant}",
                f"the interval's ends are more than a factor of {WIDE:g} apart; time more machine sizes,"
                f" closer to {cpus} CPUs",
            )


def _about_size(name: str, sizes: Sequence[int], cpus: int) -> Iterator[Reservation]:
    if cpus > FAR * sizes[-1]:
        yield (
            name,
            f"{cpus} CPUs are {cpus / sizes[-1]:.1f} times the largest machine measured ({sizes[-1]});"
            f" time one of {cpus / FAR:.0f} or more",
        )
    if cpus * FAR < sizes[0]:
        yield (
            name,
            f"the smallest machine measured ({sizes[0]} CPUs) is {sizes[0] / cpus:.1f} times one of {cpus};"
            " time a smaller one",
        )


def _about_data(name: str, one: Group) -> Iterator[Reservation]:
    if one.timings[0].emulated:
        yield name, "emulated seconds, which say nothing of hardware's; time the switch on hardware"
    if len(one.sizes) == 1:
        yield (
            name,
            f"only one machine size ({one.sizes[0]} CPUs): all growth is assumed, none measured; time a"
            " second size",
        )
    elif len(one.sizes) < len(one.fit.kinds):
        yield (
            name,
            f"{len(one.sizes)} machine sizes for {len(one.fit.kinds)} kinds of cost: how they grow is in part"
            " assumed; time more sizes",
        )
    if all(timing.n == 1 for timing in one.timings):
        yield name, "one value for each timing, so their scatter is not known; add iterations"
    if not one.counted:
        yield (
            name,
            "not counted, one of each event for each CPU is assumed; time with --count-iterations 1",
        )
    if any(timing.fqs_base is None for timing in one.timings):
        yield (
            name,
            "RCU's first wait was set by hand and is taken not to grow; measure with the kernel's own",
        )
    for operation, variant in one.series:
        if one.by_chunk(operation, variant):
            yield (
                f"{operation} {variant}",
                f"counts do not grow with the CPUs measured, and are taken to be paid once for each"
                f" {one.roles.chunk} CPUs; set --chunk, or count on a larger machine",
            )
        kernels = dict.fromkeys(timing.kernel or "unknown" for timing in one.of(operation, variant))
        if len(kernels) > 1:
            yield (
                f"{operation} {variant}",
                f"timings of {len(kernels)} kernels are taken together ({', '.join(kernels)}), as if events"
                " cost the same in all; leave out what does not belong",
            )


def _about_fit(name: str, one: Group) -> Iterator[Reservation]:
    fitted = one.fit
    if fitted.rank < len(fitted.kinds):
        yield (
            name,
            f"the timings tell apart {fitted.rank} of {len(fitted.kinds)} kinds of cost; prices are one"
            " possible split, the interval holds the others too; time a variant that lacks one of them",
        )
    logs = np.abs(np.log(np.maximum(fitted.ratios, np.finfo(float).tiny)))
    worst = int(np.argmax(logs))
    if logs[worst] > np.log(MISS):
        timing = one.timings[worst]
        yield (
            name,
            f"the model gives {timing.operation} {timing.variant} at {timing.cpus} CPUs"
            f" {fitted.ratios[worst]:.2f} times what was measured; look whether one kernel and one kind of"
            " machine gave these timings",
        )
