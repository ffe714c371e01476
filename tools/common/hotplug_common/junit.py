"""Verdicts as JUnit XML, for programs that show test results."""

from __future__ import annotations

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from hotplug_common.tables import Case, Outcome, Suite
from hotplug_host.text import printable


def to_xml(suite: Suite) -> str:
    """Return one suite with a test case per verdict; remarks are properties of the suite."""
    found = TestSuite(suite.name)
    for number, remark in enumerate(suite.remarks, start=1):
        found.add_property(f"remark{number}", printable(remark))
    for case in suite.cases:
        found.add_testcase(_test_case(case))
    xml = JUnitXml()
    xml.add_testsuite(found)
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
