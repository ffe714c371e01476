"""A comparison as JUnit XML, for whatever shows test results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from hotplug_timer.analysis.stats import SLOWER, TOO_FEW
from hotplug_timer.target.text import printable

SUITE = "hotplug-timer compare"


@dataclass(frozen=True)
class Case:
    """One verdict. `seconds` is the variant's median."""

    operation: str
    label: str
    seconds: float
    verdict: str
    sentence: str


def to_xml(cases: Sequence[Case], remarks: Sequence[str]) -> str:
    """Return one suite with a test case per verdict; remarks are properties of the suite."""
    suite = TestSuite(SUITE)
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
    test = TestCase(printable(case.label), printable(case.operation), round(case.seconds, 6))
    if case.verdict == SLOWER:
        test.result = [Failure(case.sentence, SLOWER)]
    elif case.verdict == TOO_FEW:
        test.result = [Skipped(case.sentence)]
    else:
        test.system_out = case.sentence
    return test
