"""Predictions and their validation as tables."""

from __future__ import annotations

from hotplug_common.stats import Interval
from hotplug_common.tables import NONE, Column, Kind, Sheet, Table, significant
from hotplug_timer.predict.outlook import Outlook, Prediction, Price
from hotplug_timer.predict.validation import Check, Digest, Validation


def outlook_sheet(outlook: Outlook) -> Sheet:
    """Return what is printed of predictions."""
    return Sheet(
        tables=(_predictions_table(outlook), _prices_table(outlook)),
        facts={"cpus": outlook.cpus, "emulated": outlook.emulated},
        remarks={"warnings": list(outlook.reservations)},
    )


def validation_sheet(validation: Validation) -> Sheet:
    """Return what is printed of a validation: errors taken together, and one by one."""
    return Sheet(
        tables=(_digests_table(validation), _checks_table(validation)),
        facts={"emulated": validation.emulated},
        remarks={"left_out": list(validation.left_out)},
    )


def _predictions_table(outlook: Outlook) -> Table[Prediction]:
    sizes = sorted({timing.cpus for timing in outlook.timings})
    measured = f"{sizes[0]} to {sizes[-1]} CPUs" if len(sizes) > 1 else f"{sizes[0]} CPUs"
    unit = _unit(outlook.emulated)

    def flat(found: Prediction) -> dict[str, object]:
        return {
            "operation": found.operation,
            "variant": found.variant,
            "cpus": found.cpus,
            "toggled": found.toggled,
            "seconds": found.forecast.seconds,
            "interval_low_s": found.forecast.interval.low,
            "interval_high_s": found.forecast.interval.high,
            "interval_method": found.forecast.interval.method,
            "emulated": outlook.emulated,
            "counted": found.counted,
            "smallest_measured": found.sizes[0],
            "largest_measured": found.sizes[-1],
            "sizes": len(found.sizes),
        }

    return Table(
        "predictions",
        (
            Column("operation", lambda found: found.operation, Kind.WORDS),
            Column("variant", lambda found: found.variant, Kind.WORDS),
            Column("CPUs switched", lambda found: str(found.toggled)),
            Column(f"predicted ({unit})", lambda found: _predicted(found.forecast.seconds)),
            Column(f"95% interval ({unit})", lambda found: _range(found.forecast.interval)),
            Column("measured at", lambda found: ", ".join(map(str, found.sizes)), Kind.WORDS),
            Column("largest part", _largest_part, Kind.WORDS),
        ),
        outlook.predictions,
        f"{outlook.cpus} CPUs, predicted from timings of {measured}, {_kind(outlook.emulated)};"
        " lower is better",
        record=lambda found: {**flat(found), "parts_s": dict(found.forecast.parts)},
        flat=flat,
    )


def _prices_table(outlook: Outlook) -> Table[Price]:
    unit = _unit(outlook.emulated)
    return Table(
        "prices",
        (
            Column("prices of", lambda price: price.series, Kind.WORDS),
            Column("one of", lambda price: price.words, Kind.WORDS),
            Column("at CPUs", lambda price: str(price.measured_cpus)),
            Column(f"costs ({unit})", lambda price: _predicted(price.measured_s)),
            Column(f"at {outlook.cpus} CPUs ({unit})", lambda price: _predicted(price.predicted_s)),
        ),
        outlook.prices,
        "Prices in the best fit, one of those the timings allow",
        record=vars,
    )


def _digests_table(validation: Validation) -> Table[Digest]:
    covered = sum(check.covered for check in validation.checks)
    return Table(
        "digests",
        (
            Column("operation", lambda digest: digest.operation, Kind.WORDS),
            Column("variant", lambda digest: digest.variant, Kind.WORDS),
            Column("from CPUs up to", lambda digest: str(digest.largest)),
            Column("n", lambda digest: str(digest.n)),
            Column("off by a factor of, median", lambda digest: f"{digest.factor:.1f}"),
            Column("at worst", lambda digest: f"{digest.worst:.1f}"),
            Column("in the interval", lambda digest: f"{digest.covered} of {digest.n}"),
        ),
        validation.digests,
        f"Larger machines predicted from smaller ones, {_kind(validation.emulated)};"
        f" {covered} of {len(validation.checks)} measured times are in the interval",
    )


def _checks_table(validation: Validation) -> Table[Check]:
    unit = _unit(validation.emulated)
    return Table(
        "checks",
        (
            Column("operation", lambda check: check.timing.operation, Kind.WORDS),
            Column("variant", lambda check: check.timing.variant, Kind.WORDS),
            Column("from CPUs up to", lambda check: str(check.largest)),
            Column("CPUs", lambda check: str(check.timing.cpus)),
            Column("kernel", lambda check: check.timing.kernel or NONE, Kind.WORDS),
            Column(f"measured ({unit})", lambda check: significant(check.timing.seconds)),
            Column(f"predicted ({unit})", lambda check: _predicted(check.forecast.seconds)),
            Column(f"95% interval ({unit})", lambda check: _range(check.forecast.interval)),
            Column("error", lambda check: f"{100 * check.error:+.0f}%"),
            Column("in the interval", lambda check: "yes" if check.covered else "no"),
        ),
        validation.checks,
        "Each of them; an error above 0 is a prediction that is too long",
        record=_check_entry,
        flat=_check_entry,
    )


def _check_entry(check: Check) -> dict[str, object]:
    """Return one flat record for a check, numbers unrounded."""
    timing, interval = check.timing, check.forecast.interval
    return {
        "operation": timing.operation,
        "variant": timing.variant,
        "source": timing.source,
        "kernel": timing.kernel,
        "system": timing.system,
        "from_cpus_up_to": check.largest,
        "cpus": timing.cpus,
        "toggled": timing.toggled,
        "measured_s": timing.seconds,
        "predicted_s": check.forecast.seconds,
        "interval_low_s": interval.low,
        "interval_high_s": interval.high,
        "error": check.error,
        "covered": check.covered,
    }


def _largest_part(found: Prediction) -> str:
    largest = found.largest_part
    return f"{largest[0]} {largest[1]:.0%}" if largest else NONE


def _range(interval: Interval) -> str:
    return f"{_predicted(interval.low)} to {_predicted(interval.high)}"


def _predicted(seconds: float) -> str:
    # More would claim what no prediction has.
    return significant(seconds, 2)


def _unit(emulated: bool) -> str:
    return "s, emulated" if emulated else "s"


def _kind(emulated: bool) -> str:
    return "emulated CPUs: seconds are not hardware's" if emulated else "hardware seconds"
