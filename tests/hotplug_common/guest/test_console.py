import json
from pathlib import Path

import pytest

import tests
from hotplug_common.guest import console

GOLDEN = tests.GOLDEN / "lpar_lab/console"
LOGS = sorted(GOLDEN.glob("*.log"))


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_golden_logs_give_their_verdict(log: Path) -> None:
    wanted = json.loads(log.with_suffix(".json").read_text())
    verdict = console.classify_file(log)
    got = {
        "verdict": verdict.severity.label,
        "cause": verdict.cause.text if verdict.cause else None,
        "findings": [[f.line, f.name, f.severity.label] for f in verdict.findings],
    }
    assert got == wanted


def test_every_log_has_its_pair_and_there_are_some() -> None:
    assert LOGS
    assert {log.stem for log in LOGS} == {answer.stem for answer in GOLDEN.glob("*.json")}


def test_every_pattern_is_used_by_some_golden_log() -> None:
    seen = {f.name for log in LOGS for f in console.classify_file(log).findings}
    untried = {p.name for p in console.load_rules().patterns} - seen
    # These have no sample of their own; they guard against rarer ends.
    assert untried <= {"no root file system", "general protection fault", "kernel BUG at", "hard lockup"}


@pytest.mark.parametrize(
    "line",
    [
        "kernel BUG at kernel/cpu.c:1402!",
        "general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP",
        "watchdog: CPU 3 self-detected hard LOCKUP @ queued_spin_lock_slowpath+0x88/0x2f0",
    ],
)
def test_rarer_ends_are_oopses(line: str) -> None:
    stamped = f"[   12.345678][  T123] {line}"
    assert console.classify([stamped], console.load_rules()).severity is console.Severity.OOPS


def test_a_suppressed_line_is_no_finding(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        "[[pattern]]\nname = 'warning'\nseverity = 'warning'\nregex = '^WARNING: '\n"
        "[[suppression]]\nregex = 'at drivers/known\\.c'\nreason = 'harmless under emulation'\n"
    )
    lines = ["WARNING: CPU: 0 PID: 1 at drivers/known.c:1", "WARNING: CPU: 0 PID: 1 at kernel/cpu.c:1"]
    assert [f.line for f in console.classify(lines, console.load_rules(rules)).findings] == [2]


def test_a_missing_log_is_clean(tmp_path: Path) -> None:
    assert console.classify_file(tmp_path / "none").severity is console.Severity.CLEAN


def test_last_lines_drop_escapes_and_blank_lines(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_bytes(b"one\r\n\r\n\x1b[0;32mtwo\x1b[0m\r\n\x1b[!p\x1b]104\x1b\\\x1b[6nthree\r\n")
    assert console.last_lines(log, 2) == ["two", "three"]
