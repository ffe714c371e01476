"""How a run goes through its hosts: a few first, more when these are well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hotplug_host.errors import ExitCode, ToolError

#: One host first; never more than a quarter at a time.
DEFAULT = ("1", "5", "10%", "25%")
#: What measures takes one host at a time: hosts side by side may share a machine, and disturb each other.
ALONE = ("1",)
SIZE = re.compile(r"(?P<number>[1-9][0-9]*)(?P<percent>%?)")


@dataclass(frozen=True)
class Batch:
    """Hosts that are changed side by side, and the minutes from the run's start to their end."""

    hosts: Sequence[str]
    begins: float
    ends: float


def parse(text: str) -> list[int | str]:
    """Return the sizes in "1,5,10%", as Ansible's `serial` takes them; ToolError (USAGE) for another text."""
    sizes: list[int | str] = []
    for word in text.split(","):
        found = SIZE.fullmatch(word.strip())
        if not found or (found["percent"] and int(found["number"]) > 100):
            raise ToolError(
                f"'{word}' is no size of a batch",
                "give numbers and percentages, as in 1,5,10%",
                ExitCode.USAGE,
            )
        sizes.append(word.strip() if found["percent"] else int(found["number"]))
    return sizes


def batches(
    hosts: Sequence[str],
    sizes: Sequence[int | str],
    minutes: float,
    soak: float,
    own: Mapping[str, float] | None = None,
) -> list[Batch]:
    """Return the batches; SOAK minutes pass after the first. The last size repeats.

    A batch is as long as the host of it that takes longest: the minutes that are its OWN, or else MINUTES.
    """
    made: list[Batch] = []
    done, at = 0, 0.0
    while done < len(hosts):
        size = sizes[min(len(made), len(sizes) - 1)]
        # As Ansible rounds: down, but never to none.
        count = size if isinstance(size, int) else max(1, len(hosts) * int(size.rstrip("%")) // 100)
        begins = at + (soak if len(made) == 1 else 0.0)
        names = hosts[done : done + count]
        at = begins + max((own or {}).get(name, minutes) for name in names)
        made.append(Batch(names, begins, at))
        done += count
    return made
