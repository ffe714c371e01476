"""Kernel CPU lists ("0-3,8,10-11"), as sysfs prints and reads them."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPU = 1 << 20


def parse_cpulist(text: str) -> frozenset[int]:
    """Return the CPUs a kernel CPU list names; the empty list is the empty set.

    Accepts the kernel's stride form as well ("0-31:1/8": the first CPU of every eight).
    Raises ValueError, naming the part that is wrong.
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            cpus.update(_parse_part(part.strip()))
        elif text.strip():
            raise ValueError(f"empty element in CPU list {text.strip()!r}")
    return frozenset(cpus)


def format_cpulist(cpus: Iterable[int]) -> str:
    """Return CPUs as the shortest kernel CPU list, ascending; the empty set is "" as in sysfs."""
    parts: list[str] = []
    ordered = sorted(set(cpus))
    start = 0
    for position, cpu in enumerate(ordered):
        if position + 1 == len(ordered) or ordered[position + 1] != cpu + 1:
            first = ordered[start]
            parts.append(str(first) if first == cpu else f"{first}-{cpu}")
            start = position + 1
    return ",".join(parts)


def _parse_part(part: str) -> range | set[int]:
    span, colon, stride = part.partition(":")
    first_text, dash, last_text = span.partition("-")
    first = _number(first_text, part)
    last = _number(last_text, part) if dash else first
    if last < first:
        raise ValueError(f"CPU range {part!r} runs backwards")
    if not colon:
        return range(first, last + 1)
    used_text, slash, group_text = stride.partition("/")
    used, group = _number(used_text, part), _number(group_text, part)
    if not slash or not 0 < used <= group:
        raise ValueError(f"bad stride in CPU range {part!r}")
    return {cpu for cpu in range(first, last + 1) if (cpu - first) % group < used}


def _number(text: str, part: str) -> int:
    # str.isdigit() also accepts other scripts' digits, which int() would take and sysfs never prints.
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{part!r} is not a CPU number or range")
    # No kernel is built for more than a few thousand; a range without bound would be a set without bound.
    if len(text) > 7 or int(text) > MAX_CPU:
        raise ValueError(f"CPU number {text[:20]} in {part[:40]!r} is larger than any kernel has")
    return int(text)
