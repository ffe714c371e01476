"""Printing predictions and their validation: table, markdown, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console

from hotplug_common.stats import Interval
from hotplug_host.text import printable
from hotplug_timer.compare.text import (
    NONE,
    PLAIN_WIDTH,
    WORDS,
    markdown_table,
    printable_entry,
    terminal_table,
)
from hotplug_timer.predict.outlook import Outlook, Prediction
from hotplug_timer.predict.validation import Check, Validation

_WORDS = (*WORDS, "largest part", "prices of", "one of", "kernel", "source", "measured at")


@dataclass(frozen=True)
class Section:
    """A heading and the table below it."""

    heading: str
    header: list[str]
    rows: list[list[str]]


def print_outlook(outlook: Outlook, style: str, stream: TextIO) -> None:
    """Print predictions as "table", "markdown", "csv" or "json"."""
    _print(style, stream, outlook_sections(outlook), outlook_entries(outlook), outlook_json(outlook))


def print_validation(validation: Validation, style: str, stream: TextIO) -> None:
    """Print a validation as "table", "markdown", "csv" or "json"."""
    entries = [check_entry(check) for check in validation.checks]
    content = {
        "emulated": validation.emulated,
        "checks": entries,
        "left_out": list(validation.left_out),
    }
    _print(style, stream, validation_sections(validation), entries, content)


def significant(value: float, number: int = 3) -> str:
    """Return a number with so many digits that count, and no exponent; "0" for what is not above 0."""
    if value <= 0:
        return "0"
    digits = number - 1 - math.floor(math.log10(value))
    return f"{round(value, digits):.{max(0, digits)}f}"


def outlook_sections(outlook: Outlook) -> list[Section]:
    """Return the tables of predictions and of prices."""
    sizes = sorted({timing.cpus for timing in outlook.timings})
    measured = f"{sizes[0]} to {sizes[-1]} CPUs" if len(sizes) > 1 else f"{sizes[0]} CPUs"
    unit = _unit(outlook.emulated)
    sections = [
        Section(
            f"{outlook.cpus} CPUs, predicted from timings of {measured}, {_kind(outlook.emulated)};"
            " lower is better",
            [
                "operation",
                "variant",
                "CPUs switched",
                f"predicted ({unit})",
                f"95% interval ({unit})",
                "measured at",
                "largest part",
            ],
            [_prediction_cells(found) for found in outlook.predictions],
        )
    ]
    if outlook.prices:
        rows = [
            [
                price.series,
                price.words,
                str(price.measured_cpus),
                _predicted(price.measured_s),
                _predicted(price.predicted_s),
            ]
            for price in outlook.prices
        ]
        header = ["prices of", "one of", "at CPUs", f"costs ({unit})", f"at {outlook.cpus} CPUs ({unit})"]
        sections.append(Section("Prices in the best fit, one of those the timings allow", header, rows))
    return sections


def validation_sections(validation: Validation) -> list[Section]:
    """Return the tables of errors taken together and one by one."""
    unit = _unit(validation.emulated)
    digests = [
        [
            digest.operation,
            digest.variant,
            str(digest.largest),
            str(digest.n),
            f"{digest.factor:.1f}",
            f"{digest.worst:.1f}",
            f"{digest.covered} of {digest.n}",
        ]
        for digest in validation.digests
    ]
    covered = sum(check.covered for check in validation.checks)
    return [
        Section(
            f"Larger machines predicted from smaller ones, {_kind(validation.emulated)};"
            f" {covered} of {len(validation.checks)} measured times are in the interval",
            [
                "operation",
                "variant",
                "from CPUs up to",
                "n",
                "off by a factor of, median",
                "at worst",
                "in the interval",
            ],
            digests,
        ),
        Section(
            "Each of them; an error above 0 is a prediction that is too long",
            [
                "operation",
                "variant",
                "from CPUs up to",
                "CPUs",
                "kernel",
                f"measured ({unit})",
                f"predicted ({unit})",
                f"95% interval ({unit})",
                "error",
                "in the interval",
            ],
            [_check_cells(check) for check in validation.checks],
        ),
    ]


def outlook_entries(outlook: Outlook) -> list[dict[str, object]]:
    """Return one flat record for each prediction, numbers unrounded."""
    return [
        {
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
        for found in outlook.predictions
    ]


def outlook_json(outlook: Outlook) -> dict[str, object]:
    """Return all of an outlook as plain values."""
    return {
        "cpus": outlook.cpus,
        "emulated": outlook.emulated,
        "predictions": [
            {**entry, "parts_s": dict(found.forecast.parts)}
            for entry, found in zip(outlook_entries(outlook), outlook.predictions, strict=True)
        ],
        "prices": [vars(price) for price in outlook.prices],
        "warnings": list(outlook.reservations),
    }


def check_entry(check: Check) -> dict[str, object]:
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


def _print(
    style: str,
    stream: TextIO,
    sections: Sequence[Section],
    entries: Sequence[dict[str, object]],
    content: dict[str, object],
) -> None:
    if style == "json":
        stream.write(json.dumps(content, indent=2) + "\n")
    elif style == "csv":
        stream.write(_csv(entries))
    elif style == "markdown":
        parts = [
            f"{section.heading}:\n\n{markdown_table(section.header, section.rows)}" for section in sections
        ]
        stream.write("\n".join(parts))
    else:
        _print_tables(sections, stream)


def _print_tables(sections: Sequence[Section], stream: TextIO) -> None:
    tty = stream.isatty()
    console = Console(
        file=stream, width=None if tty else PLAIN_WIDTH, highlight=False, markup=False, emoji=False
    )
    for at, section in enumerate(sections):
        console.print(f"{'' if at == 0 else chr(10)}{printable(section.heading)}")
        console.print(terminal_table(section.header, section.rows, tty, _WORDS))


def _csv(entries: Sequence[dict[str, object]]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(entries[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(printable_entry, entries))
    return buffer.getvalue()


def _prediction_cells(found: Prediction) -> list[str]:
    largest = found.largest_part
    return [
        found.operation,
        found.variant,
        str(found.toggled),
        _predicted(found.forecast.seconds),
        _range(found.forecast.interval),
        ", ".join(map(str, found.sizes)),
        f"{largest[0]} {largest[1]:.0%}" if largest else NONE,
    ]


def _check_cells(check: Check) -> list[str]:
    timing = check.timing
    return [
        timing.operation,
        timing.variant,
        str(check.largest),
        str(timing.cpus),
        timing.kernel or NONE,
        significant(timing.seconds),
        _predicted(check.forecast.seconds),
        _range(check.forecast.interval),
        f"{100 * check.error:+.0f}%",
        "yes" if check.covered else "no",
    ]


def _range(interval: Interval) -> str:
    return f"{_predicted(interval.low)} to {_predicted(interval.high)}"


def _predicted(seconds: float) -> str:
    # More would claim what no prediction has.
    return significant(seconds, 2)


def _unit(emulated: bool) -> str:
    return "s, emulated" if emulated else "s"


def _kind(emulated: bool) -> str:
    return "emulated CPUs: seconds are not hardware's" if emulated else "hardware seconds"
