"""KTAP: what KUnit writes to the kernel's log, and what a selftest's script prints."""

import re
from collections.abc import Sequence

from hotplug_common.guest import console

SUITE = re.compile(r"^(?P<failed>not )?ok \d+ (?P<name>[\w-]+)(?: # (?P<remark>.*))?$")
TOTALS = re.compile(r"^# (?P<name>[\w-]+): pass:(?P<passed>\d+) fail:(?P<failed>\d+) skip:(?P<skipped>\d+)")


def problems(log: str, suites: Sequence[str]) -> list[str]:
    """Which of these suites did not run, did not pass, or passed without a test that ran."""
    lines = [console.plain(line).strip() for line in log.splitlines()]
    ended = {match["name"]: match for match in map(SUITE.match, lines) if match}
    totals = {match["name"]: match for match in map(TOTALS.match, lines) if match}
    found = []
    for suite in suites:
        if suite not in ended:
            found.append(
                f"KUnit suite {suite} did not run: the kernel needs --fragment kunit and kunit.enable=1"
            )
        elif ended[suite]["failed"] or suite not in totals or int(totals[suite]["failed"]):
            found.append(f"KUnit suite {suite} failed")
        elif not int(totals[suite]["passed"]):
            found.append(f"KUnit suite {suite} skipped all of its tests")
    return found


PLAN = re.compile(r"^1\.\.(?P<count>\d+)(?: # SKIP (?P<reason>.*))?$")
CASE = re.compile(r"^(?P<failed>not )?ok (?P<number>\d+) (?P<name>.*?)(?: # (?P<directive>\w+).*)? *$")


def script_problems(lines: Sequence[str], required: Sequence[str]) -> list[str]:
    """Return what is wrong with a selftest's run: each case has to be there, to run, and to be ok.

    `required` are cases that the script has on any machine.
    """
    plans = [match for match in map(PLAN.match, lines) if match]
    if len(plans) != 1:
        return [f"{len(plans)} plans, not one"]
    if plans[0]["reason"] is not None:
        return [f"did not run: {plans[0]['reason']}"]
    found = []
    names = []
    notes: list[str] = []
    for line in lines[lines.index(plans[0].string) + 1 :]:
        case = CASE.match(line)
        if case is None:
            notes.append(line.removeprefix("# "))
            continue
        names.append(case["name"])
        if case["failed"]:
            found.append(f"{case['name']}: failed: {'; '.join(notes)}")
        elif case["directive"]:
            found.append(f"{case['name']}: did not run ({case['directive']})")
        notes = []
    if len(names) != int(plans[0]["count"]):
        found.append(f"{len(names)} cases, not {plans[0]['count']}")
    return found + [f"{name}: not there" for name in required if name not in names]
