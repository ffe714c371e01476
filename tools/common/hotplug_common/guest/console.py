"""What the console says about the guest's kernel: panic, oops, warnings, or nothing bad."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

PATTERNS = Path(__file__).parent / "data" / "console-patterns.toml"
STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[\s*[TC]\d+\])? ")
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][A-Z0-9]|[@-Z\\-_=>0-9])")


class Severity(IntEnum):
    """How bad a console line is; the worst one is the verdict."""

    CLEAN = 0
    WARNING = 1
    OOPS = 2
    PANIC = 3

    @property
    def label(self) -> str:
        """Lower-case name, as in the patterns file and in JSON."""
        return self.name.lower()


@dataclass(frozen=True)
class Pattern:
    """A named regular expression over one console line, and its severity."""

    name: str
    severity: Severity
    regex: re.Pattern[str]


@dataclass(frozen=True)
class Rules:
    """Everything the patterns file says."""

    patterns: tuple[Pattern, ...]
    suppressions: tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class Finding:
    """A console line that matched; `line` counts from 1."""

    line: int
    name: str
    severity: Severity
    text: str


@dataclass(frozen=True)
class Verdict:
    """The worst severity seen, and every finding in order."""

    severity: Severity
    findings: tuple[Finding, ...]

    @property
    def cause(self) -> Finding | None:
        """What began it: the first oops or panic when there is one, else the first finding."""
        bad = (finding for finding in self.findings if finding.severity >= Severity.OOPS)
        return next(bad, self.findings[0] if self.findings else None)


def load_rules(path: Path = PATTERNS) -> Rules:
    """Read a patterns file (TOML: [[pattern]] name, severity, regex; [[suppression]] regex, reason)."""
    data = tomllib.loads(path.read_text())
    patterns = tuple(
        Pattern(entry["name"], Severity[entry["severity"].upper()], re.compile(entry["regex"]))
        for entry in data["pattern"]
    )
    return Rules(patterns, tuple(re.compile(entry["regex"]) for entry in data.get("suppression", [])))


def plain(line: str) -> str:
    """Strip terminal escapes, carriage returns and the kernel's time stamp from one line."""
    return STAMP.sub("", ESCAPE.sub("", line).replace("\r", "").rstrip("\n"))


def classify(lines: Iterable[str], rules: Rules) -> Verdict:
    """Match every line; a suppressed line is no finding."""
    findings = []
    for number, raw in enumerate(lines, start=1):
        text = plain(raw)
        pattern = next((p for p in rules.patterns if p.regex.search(text)), None)
        if pattern and not any(s.search(text) for s in rules.suppressions):
            findings.append(Finding(number, pattern.name, pattern.severity, text))
    worst = max((finding.severity for finding in findings), default=Severity.CLEAN)
    return Verdict(worst, tuple(findings))


def classify_file(path: Path, rules: Rules | None = None) -> Verdict:
    """Classify a console log; a log that is not there yet is clean."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    return classify(text.splitlines(), rules or load_rules())


def last_lines(path: Path, count: int = 30) -> list[str]:
    """Return the last lines of a console log, without escapes, time stamps kept."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return []
    lines = [ESCAPE.sub("", line).rstrip("\r") for line in text.splitlines()]
    return [line for line in lines if line.strip()][-count:]
