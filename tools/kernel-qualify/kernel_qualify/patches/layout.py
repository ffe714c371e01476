"""Where the members of a struct lie, by pahole, and where a commit message says that they lie."""

import re
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import process
from hotplug_host.errors import ExitCode, ToolError

MEMBER = re.compile(
    r"^\t(?P<declaration>[^\t].*?);\s+/\*\s+(?P<offset>\d+)\s+(?P<size>\d+) \*/$", re.MULTILINE
)
POINTER_TO_FUNCTION = re.compile(r"\(\*(?P<name>\w+)\)")
LAST_WORD = re.compile(r"(?P<name>\w+)(?:\[\d*\])*$")
CELL = re.compile(r"(?P<names>[a-z_]\w*(?:, [a-z_]\w*)*)\t+ *(?P<offset>\d+)(?=\t|$)")


@dataclass(frozen=True)
class Member:
    """A member of a struct: where it begins, and its size, in bytes."""

    offset: int
    size: int


def members(output: str) -> dict[str, Member]:
    """Return the members that pahole lists, by name; not those of structs within it, nor bit fields."""
    found = {}
    for match in MEMBER.finditer(output):
        name = POINTER_TO_FUNCTION.search(match["declaration"]) or LAST_WORD.search(match["declaration"])
        if name is None:
            raise ToolError(f"pahole: cannot read {match[0]!r}", code=ExitCode.INPUT)
        found[name["name"]] = Member(int(match["offset"]), int(match["size"]))
    return found


def of(name: str, binary: Path) -> dict[str, Member]:
    """Return the members of a struct in an object with debug information.

    Raises ToolError (INPUT) when it has no such struct, ENVIRONMENT without pahole.
    """
    done = process.run(["pahole", "-C", name, str(binary)])
    found = members(done.output) if done.returncode == 0 else {}
    if not found:
        raise ToolError(
            f"{binary} has no struct {name}: was it compiled with -g?",
            process.last_line(done.output),
            ExitCode.INPUT,
        )
    return found


def told(message: str) -> dict[str, int]:
    """Return the offsets in a message's table: cells of a name and its offset, between tabs.

    The offset of a cell with several names is the first one's; the others follow without a gap.
    """
    cells = [match for line in message.splitlines() if line.startswith("\t") for match in CELL.finditer(line)]
    return {match["names"]: int(match["offset"]) for match in cells}


def wrong(told_offsets: dict[str, int], found: dict[str, Member], within: int) -> list[str]:
    """Which members do not lie where they are said to, or not within the first `within` bytes.

    A name may be told without what follows an underscore: state for state_use_accessors.
    """
    problems = []
    for names, offset in told_offsets.items():
        expected = offset
        for name in names.split(", "):
            full = next((full for full in found if full == name or full.startswith(f"{name}_")), None)
            if full is None:
                problems.append(f"{name} is no member")
                break
            member = found[full]
            if member.offset != expected:
                problems.append(f"{name} is at {member.offset}, not at {expected}")
            if member.offset + member.size > within:
                problems.append(f"{name} ends at {member.offset + member.size}, after {within}")
            expected += member.size
    return problems
