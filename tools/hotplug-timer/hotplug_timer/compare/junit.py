"""Verdicts as JUnit XML, for whatever shows test results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from hotplug_host.text import printable


class Outcome(Enum):
    """What a verdict is to a program that knows tests only; ERROR is for what could not be measured."""

    PASSED = auto()
    FAILED = auto()
    SKIPPED = auto()
    ERROR = auto()


@dataclass(frozen=True)
class Case:
    """One verdict. `group` is what the case is listed under; `seconds` is a median, None without one."""

    name: str
    group: str
    seconds: float | None
    outcome: Outcome
    verdict: str
    sentence: str


def to_xml(name: str, cases: Sequence[Case], remarks: Sequence[str]) -> str:
    """Return one suite with a test case per verdict; remarks are properties of the suite."""
    suite = TestSuite(name)
    for number, remark in enumerate(remarks, start=1):
        suite.add_property(f"remark{number}", printable(remark))
    for case in cases:
        suite.add_testcase(_test_case(case))
    xml = JUnitXml()
    xml.add_testsuite(suite)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    text: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    return text.decode() + "\n"


def _test_case(case: Case) -> TestCase:
    seconds = None if case.seconds is None else round(case.seconds, 6)
    test = TestCase(printable(case.name), printable(case.group), seconds)
    sentence = printable(case.sentence)
    match case.outcome:
        case Outcome.FAILED:
            test.result = [Failure(sentence, case.verdict)]
        case Outcome.ERROR:
            test.result = [Error(sentence, case.verdict)]
        case Outcome.SKIPPED:
            test.result = [Skipped(sentence)]
        case Outcome.PASSED:
            test.system_out = sentence
    return test
