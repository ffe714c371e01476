"""Hotplug states with a teardown callback in a kernel's source, marked for bulk offlining or not.

With an unmarked one registered, smt=off takes CPUs down one by one. The source is read, not compiled: a state
that a macro registers is not found, and whether a module is loaded is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import process

CALL = re.compile(r"(?<!\w)cpuhp_setup_state(_\w+)?\s*\(")
ALLOW = re.compile(r"cpuhp_allow_bulk_down\s*\(\s*([\w.>-]+)\s*\)")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TABLE_ENTRY = re.compile(r"\[(CPUHP_\w+)\]\s*=\s*\{(.*?)\n\t\},", re.DOTALL)
ENUM = re.compile(r"enum cpuhp_state \{(.*?)\n\};", re.DOTALL)
FIRST, LAST = "CPUHP_TEARDOWN_CPU", "CPUHP_ONLINE"
"""The states between these are torn down while the CPU is online, and have to be marked."""
CORE, HEADER = "kernel/cpu.c", "include/linux/cpuhotplug.h"
BULK = "cpuhp_bulk_down_possible"
SKIPPED = ("tools", "Documentation", "samples")


@dataclass(frozen=True)
class State:
    """A state as the source registers it."""

    file: str
    line: int
    state: str
    """The constant, such as CPUHP_AP_ONLINE_DYN."""
    name: str
    """What /sys/devices/system/cpu/hotplug/states calls it."""
    teardown: str
    multi: bool
    """Whether it only counts once it has an instance: a device, a disk, a PMU."""
    marked: bool


def scan(tree: Path, patched: Path, kbuild_arch: str) -> list[State] | None:
    """Return the states of the online section with a teardown callback; files in PATCHED go before TREE's.

    None where the source has no bulk offlining, so that there is nothing to mark.
    """

    def text_of(name: str) -> str:
        file = patched / name if (patched / name).is_file() else tree / name
        return file.read_text(errors="replace") if file.is_file() else ""

    core = text_of(CORE)
    if BULK not in core:
        return None
    online = online_section(text_of(HEADER))
    found = list(core_states(core, online))
    for name in _files(tree, kbuild_arch):
        if name != CORE:
            found += registered(text_of(name), name, online)
    return found


def _files(tree: Path, kbuild_arch: str) -> list[str]:
    listed = process.run(["grep", "-rl", "--include=*.c", "cpuhp_setup_state", "."], cwd=tree).output
    names = [line.removeprefix("./") for line in listed.splitlines()]
    return sorted(
        name
        for name in names
        if not name.startswith(tuple(f"{folder}/" for folder in SKIPPED))
        and (not name.startswith("arch/") or name.startswith(f"arch/{kbuild_arch}/"))
    )


def online_section(header: str) -> frozenset[str]:
    """Return the constants between FIRST and LAST."""
    found = ENUM.search(COMMENT.sub("", header))
    names = re.findall(r"^\s*(CPUHP_\w+)", found[1], re.MULTILINE) if found else []
    inside = names[names.index(FIRST) + 1 : names.index(LAST)] if {FIRST, LAST} <= set(names) else names
    return frozenset(inside)


def core_states(core: str, online: frozenset[str]) -> Iterator[State]:
    """Yield the states in the table of kernel/cpu.c."""
    for entry in TABLE_ENTRY.finditer(core):
        state, body = entry[1], entry[2]
        teardown = re.search(r"\.teardown\.\w+\s*=\s*(\w+)", body)
        if state not in online or not teardown or teardown[1] == "NULL":
            continue
        name = re.search(r'\.name\s*=\s*"([^"]*)"', body)
        marked = re.search(r"\.bulk_down\s*=\s*true", body) is not None
        line = core.count("\n", 0, entry.start()) + 1
        yield State(CORE, line, state, name[1] if name else "", teardown[1], False, marked)


def registered(text: str, file: str, online: frozenset[str]) -> Iterator[State]:
    """Yield the states that a file registers at run time."""
    # Comments go, lines stay where they are.
    text = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    constants = set(ALLOW.findall(text))
    for call in CALL.finditer(text):
        arguments, end = _arguments(text, call.end())
        if len(arguments) != 4 or text[end : end + 2].lstrip().startswith("{"):
            continue
        state, name, _startup, teardown = arguments
        dynamic = state.endswith("_DYN")
        if teardown == "NULL" or (state.startswith("CPUHP_") and state not in online):
            continue
        marked = state in constants if not dynamic else _marked_later(text, call.start(), end)
        line = text.count("\n", 0, call.start()) + 1
        multi = "_multi" in (call[1] or "")
        yield State(file, line, state, name.strip('"'), teardown, multi, marked)


def _marked_later(text: str, start: int, end: int) -> bool:
    """Whether what the call returned is marked before its function ends, under any name it gets."""
    before = text[
        max(text.rfind(";", 0, start), text.rfind("{", 0, start), text.rfind("}", 0, start)) + 1 : start
    ]
    target = re.search(r"([\w.>-]+)\s*=\s*\(?$", before.rstrip())
    if not target:
        return False
    names = {target[1]}
    finish = text.find("\n}", end)
    for line in text[end : finish if finish >= 0 else len(text)].splitlines():
        if any(name in names for name in ALLOW.findall(line)):
            return True
        if found := re.search(r"([\w.>-]+)\s*=\s*([^=].*?)(;|$)", line.strip()):
            if found[2].strip() in names:
                names.add(found[1])
            elif not CALL.search(found[2]):  # the call's other form, in the other branch of an if
                names.discard(found[1])
    return False


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a call whose parenthesis opens before START, and where it has closed."""
    depth, quoted, part = 1, False, ""
    parts: list[str] = []
    for place in range(start, len(text)):
        letter = text[place]
        if letter == '"':
            quoted = not quoted
        if not quoted:
            depth += (letter in "([{") - (letter in ")]}")
            if depth == 0:
                return [*parts, " ".join(part.split())], place + 1
            if letter == "," and depth == 1:
                parts.append(" ".join(part.split()))
                part = ""
                continue
        part += letter
    return [], len(text)


def unmarked(states: Sequence[State], sources: frozenset[str] | None) -> list[State]:
    """Return the states that hinder; SOURCES are the files that a configuration compiles, None for all."""
    return [one for one in states if not one.marked and (sources is None or one.file in sources)]
