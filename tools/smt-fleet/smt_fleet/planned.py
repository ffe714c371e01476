"""A run that is not started, as it is printed: its batches, and what is predicted of each host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from hotplug_common.tables import NONE, Column, Kind, Record, Sheet, Table
from smt_fleet.batches import Batch
from smt_fleet.costs import Forecast


@dataclass(frozen=True)
class Planned:
    """Batches from BEGIN on, and forecasts of their hosts; none where there are no costs.

    END is that of the window, empty without one, and MINUTES those of a host that has no prediction.
    """

    begin: datetime
    batches: Sequence[Batch]
    end: str
    minutes: int
    forecasts: Sequence[Forecast] = ()

    @property
    def late(self) -> list[str]:
        """The hosts that could not be ready before the window's end."""
        return [
            name
            for batch in self.batches
            for name in batch.hosts
            if self.end and self._at(batch.begins + self.minutes_of(name)) > self.end
        ]

    def minutes_of(self, host: str) -> float:
        """Return how long a host takes."""
        return own_minutes(self.forecasts).get(host, self.minutes)

    def _at(self, minutes: float) -> str:
        return (self.begin + timedelta(minutes=minutes)).isoformat(timespec="minutes")


def own_minutes(forecasts: Sequence[Forecast]) -> dict[str, float]:
    """Return the minutes of the hosts that have a prediction."""
    return {one.host: one.minutes for one in forecasts if one.minutes is not None}


def sheet(found: Planned) -> Sheet:
    """Return what is printed."""
    made, late = found.batches, found.late
    columns: list[Column[Batch]] = [
        Column("batch", lambda batch: str(made.index(batch) + 1)),
        Column("hosts", lambda batch: str(len(batch.hosts))),
        Column("begins", lambda batch: f"{found.begin + timedelta(minutes=batch.begins):%H:%M}"),
        Column("ends", lambda batch: f"{found.begin + timedelta(minutes=batch.ends):%H:%M}"),
        Column("names", lambda batch: " ".join(batch.hosts), Kind.TEXT),
    ]
    hosts = sum(len(batch.hosts) for batch in made)
    table = Table(
        "batches",
        columns,
        made,
        record=lambda batch: {"hosts": list(batch.hosts), "begins_min": batch.begins, "ends_min": batch.ends},
    )
    return Sheet(
        [table, *([_forecasts(found)] if found.forecasts else [])],
        notes=[
            f"{hosts} hosts in {len(made)} batches, {made[-1].ends:.0f} minutes at the most",
            *([f"no time before {found.end} for {' '.join(late)}"] if late else []),
            *_doubts(found),
        ],
        remarks={
            "minutes": {name: found.minutes_of(name) for batch in made for name in batch.hosts},
            "total_min": made[-1].ends,
            "late": late,
        },
    )


def _forecasts(found: Planned) -> Table[Forecast]:
    def record(one: Forecast) -> Record:
        return {
            "host": one.host,
            "minutes": found.minutes_of(one.host),
            "predicted": [
                {**asdict(each.switch), "low_s": each.seconds.low, "high_s": each.seconds.high}
                for each in one.switches
            ],
            "costs": one.costs and one.costs.file,
            "kernel": one.costs and one.costs.kernel,
            "cpus": one.costs and one.costs.cpus,
            "held_against": one.seen and one.seen.when,
            "problem": one.problem and str(one.problem),
        }

    columns: list[Column[Forecast]] = [
        Column("host", lambda one: one.host, Kind.WORDS),
        Column("minutes", lambda one: f"{found.minutes_of(one.host):.0f}"),
        Column("minutes from", lambda one: "--minutes" if one.minutes is None else "costs", Kind.WORDS),
        Column("predicted", lambda one: one.words if one.costs else NONE, Kind.TEXT),
        Column("costs", lambda one: str(one.costs or NONE), Kind.TEXT),
    ]
    return Table("forecasts", columns, found.forecasts, "What the costs of hosts predict", record=record)


def _doubts(found: Planned) -> Iterator[str]:
    """Yield what keeps a prediction from being one, host by host."""
    for one in found.forecasts:
        if one.problem:
            yield f"{one}; --minutes {found.minutes} counts"
    unseen = [one.host for one in found.forecasts if one.costs and not one.seen]
    if unseen:
        yield (
            f"whether these costs are of the kernel and the CPUs of {' '.join(unseen)} is not known here:"
            " smt-fleet check tells, and the run looks before it begins with a host"
        )
