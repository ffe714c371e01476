"""The audit of a host's clocks: facts, measurements, and the clocksource to use, as a record and as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hotplug_host import __version__
from hotplug_host.clock import now
from hotplug_host.clocks.facts import Facts
from hotplug_host.clocks.kernellog import ClockLog
from hotplug_host.clocks.measured import Measured
from hotplug_host.clocks.recommend import Recommendation, recommend
from hotplug_host.clocks.table import shown
from hotplug_host.text import aligned

SCHEMA = "clock-audit/1"
NONE = "-"


@dataclass(frozen=True)
class Audit:
    """One host's: what it shows, what was measured on it, and what follows."""

    facts: Facts
    measured: tuple[Measured, ...]

    @property
    def recommendation(self) -> Recommendation:
        """Return the clocksource that the host should use."""
        return recommend(self.facts, self.measured)


def record(audit: Audit) -> Mapping[str, object]:
    """Return the audit as docs/reference/result-format.md describes it."""
    facts = audit.facts
    return {
        "schema": SCHEMA,
        "taken": now(),
        "tool_version": __version__,
        "host": asdict(facts.host),
        "cpus": facts.cpus,
        "hypervisor": facts.hypervisor,
        "clocksource": asdict(facts.clocksources),
        "tsc": {"flags": facts.tsc_flags, "invariant": facts.invariant_tsc},
        "boot_words": facts.boot_words,
        "log": asdict(facts.log),
        "measured": [asdict(one) for one in audit.measured],
        "recommendation": asdict(audit.recommendation),
        "applied": None,
    }


def text(audit: Audit) -> str:
    """Return the audit as lines for a person: a heading and what belongs to it."""
    facts, advice = audit.facts, audit.recommendation
    host, clocks = facts.host, facts.clocksources
    rows = [
        ("host", f"{host.hostname}, {host.kernel_release} {host.machine}, CPUs {facts.cpus}"),
        ("hypervisor", facts.hypervisor or "none"),
        ("clocksource", f"{clocks.current or 'unknown'}, of {' '.join(clocks.available) or 'unknown'}"),
        ("TSC", f"{'' if facts.invariant_tsc else 'not '}invariant: {' '.join(facts.tsc_flags) or NONE}"),
        ("command line", " ".join(facts.boot_words) or NONE),
        ("kernel log", _log_text(facts.log)),
        *(("", f"[{message.seconds:.6f}] {message.text}") for message in facts.log.messages),
        *((one.clocksource or "unknown", _measured_text(one)) for one in audit.measured),
        ("recommended", f"{advice.clocksource or 'none'}: {advice.reason}"),
    ]
    return aligned(rows, left=(0, 1))


def _log_text(log: ClockLog) -> str:
    if not log.readable:
        return "cannot be read"
    since = "" if log.complete else "; it no longer reaches back to the boot"
    return f"messages about clocks: {len(log.messages)}{since}"


def _measured_text(one: Measured) -> str:
    cost = "" if one.us_per_call is None else f" {shown(one.us_per_call)} us/call"
    return f"{one.operation}{cost}{f': {one.problem}' if one.problem else ''}"
