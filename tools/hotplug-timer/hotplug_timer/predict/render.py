"""A prediction as it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hotplug_common.tables import NONE, Column, Kind, Sheet, Table, significant
from hotplug_host.operations import OFF, SMT, name_of
from hotplug_timer.predict import patched
from hotplug_timer.predict.costs import Costs
from hotplug_timer.predict.patched import SPREAD, Events, Machine, Range, Size

#: Kinds of lines: the kernel that was measured, the same with grace periods expedited, and the patched one.
STOCK, EXPEDITED, PATCHED = "stock", "expedited", "patched"


@dataclass(frozen=True)
class Outlook:
    """What `predict` shows: costs of both directions, and the states that have CPUs go one by one."""

    kernel: str
    emulated: bool
    size: Size
    machine: Machine
    closure: float
    costs: tuple[Costs, ...]
    hindering: tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """One line: how long a kernel takes in one direction; `events` are None where they go with the CPUs.

    `kind` is what programs tell the lines apart by.
    """

    direction: str
    kind: str
    kernel: str
    seconds: Range
    events: Events | None = None


@dataclass(frozen=True)
class Part:
    """What one of a part of the measured switch costs, how many there were, and all of them, in seconds."""

    direction: str
    name: str
    one: float
    number: float


def sheet(outlook: Outlook) -> Sheet:
    """Return what is printed."""
    size, rows = outlook.size, list(predictions(outlook))
    unit = "s, emulated" if outlook.emulated else "s"
    columns: tuple[Column[Prediction], ...] = (
        Column("operation", lambda row: name_of(SMT, row.direction), Kind.WORDS),
        Column("kernel", lambda row: row.kernel, Kind.WORDS),
        Column(f"predicted ({unit})", lambda row: _range(row.seconds)),
        Column("grace periods", lambda row: str(row.events.grace_periods) if row.events else NONE),
        Column("rendezvous", lambda row: str(row.events.rendezvous) if row.events else NONE),
        Column("rebuilds", lambda row: str(row.events.rebuilds) if row.events else NONE),
    )
    return Sheet(
        tables=(
            Table("predictions", columns, rows, _heading(outlook), record=_record, flat=_record),
            _parts(outlook, unit),
        ),
        notes=(*_held_back(outlook), rests_on(outlook.closure)),
        facts={
            "kernel": outlook.kernel,
            "emulated": outlook.emulated,
            "cpus": size.cpus,
            "toggled": size.toggled,
            "chunk": size.chunk,
            "closure": outlook.closure,
            "hindering_states": list(outlook.hindering),
        },
    )


def predictions(outlook: Outlook) -> Iterator[Prediction]:
    """Yield the lines: of each direction the kernel that runs, also expedited, then the patched one."""
    for costs in outlook.costs:
        size = outlook.size
        expedited = patched.one_by_one(costs, size)
        yield Prediction(costs.direction, STOCK, outlook.kernel, patched.stock(costs, size))
        yield Prediction(costs.direction, EXPEDITED, f"{outlook.kernel}, expedited", expedited)
        if costs.direction == OFF and outlook.hindering:
            yield Prediction(OFF, PATCHED, "patched, CPUs one by one", expedited)
            continue
        events = patched.events_of(costs.direction, size)
        seconds = patched.patched(costs, size, outlook.machine)
        found = Prediction(costs.direction, PATCHED, "patched", seconds, events)
        yield found
        if costs.direction == OFF:
            yield replace(
                found,
                kernel="patched, if firmware stops CPUs one at a time",
                seconds=patched.dying_alone(costs, size, outlook.machine),
            )


def rests_on(closure: float) -> str:
    """Return the one sentence on what a prediction rests on."""
    return (
        "Each range, which is not a 95% interval, rests on costs measured here, whose pieces come to"
        f" {closure:.2f} of the seconds of the same switches, and on how often the series makes the machine"
        f" wait; its ends are a factor of {SPREAD} from the middle, as single CPUs were measured and not"
        " chunks."
    )


def _heading(outlook: Outlook) -> str:
    switched = outlook.costs[0].switched
    kind = ", emulated CPUs: seconds are not hardware's" if outlook.emulated else ""
    return (
        f"{outlook.size.toggled} of {outlook.size.cpus} CPUs, predicted from {switched} of them{kind};"
        " lower is better"
    )


def _held_back(outlook: Outlook) -> Sequence[str]:
    if not outlook.hindering:
        return ()
    return (
        f"smt=off goes one by one because of {', '.join(outlook.hindering)}: the series has not marked that"
        " teardown. The prediction is the stock kernel with expedited grace periods.",
    )


def _parts(outlook: Outlook, unit: str) -> Table[Part]:
    rows = [part for costs in outlook.costs for part in parts_of(costs) if part.one > 0]
    return Table(
        "parts",
        (
            Column("operation", lambda part: part.direction, Kind.WORDS),
            Column("one of", lambda part: part.name, Kind.WORDS),
            Column(f"costs ({unit})", lambda part: significant(part.one, 2)),
            Column("of them", lambda part: f"{part.number:g}"),
            Column(f"together ({unit})", lambda part: significant(part.one * part.number)),
        ),
        rows,
        f"What was measured, of {outlook.costs[0].switched} CPUs",
        record=vars,
    )


def parts_of(costs: Costs) -> Iterator[Part]:
    """Yield the parts of the measured switch, and the expedited grace period, of which it has none."""
    number = costs.switched
    for name, one, times in (
        ("grace periods", costs.grace, costs.grace_periods),
        ("expedited grace periods", costs.expedited, 0),
        ("gatherings for a rendezvous", costs.gather, number),
        ("turns in a rendezvous", costs.turn, number),
        ("rebuilds of the scheduler domains", costs.rebuild, number),
        ("parking a CPU's threads", costs.park, number),
        ("waits for firmware to stop a CPU", costs.death, number),
        ("CPUs, without all this", costs.each, number),
    ):
        yield Part(costs.direction, name, one, times)


def _record(row: Prediction) -> dict[str, object]:
    return {
        "operation": name_of(SMT, row.direction),
        "kernel": row.kernel,
        "kind": row.kind,
        "low_s": row.seconds.low,
        "high_s": row.seconds.high,
        **(vars(row.events) if row.events else dict.fromkeys(Events.__dataclass_fields__)),
    }


def _range(seconds: Range) -> str:
    return f"{significant(seconds.low, 2)} to {significant(seconds.high, 2)}"
