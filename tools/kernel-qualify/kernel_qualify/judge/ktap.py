"""What KUnit writes to the kernel's log: KTAP, with a line for each suite."""

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
