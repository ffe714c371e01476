"""Bring a host to an SMT level, if asked to an exact set of online CPUs, and prove that it is there."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

from hotplug_host import placement
from hotplug_host.arguments import add_sysroot
from hotplug_host.cpulist import format_cpulist, parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.programs import find_program, read_smt
from hotplug_host.restore import bring_cpus
from hotplug_host.sysfs import SMT_CONTROL, Sysfs
from hotplug_host.topology import read_control, read_online, read_present

#: smt/control values with which it switches nothing: no such file, and as on POWER before 6.6.
NO_SWITCH = (None, "notimplemented")
#: Its value where no core has a second thread.
NOT_SUPPORTED = "notsupported"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the step."""
    parser.add_argument("--level", required=True, help="on, off, or a number of threads per core")
    parser.add_argument("--exactly", type=parse_cpulist, help="CPU list to be online, and nothing else")
    parser.add_argument(
        "--present",
        type=parse_cpulist,
        help="CPU list that was present when the other lists were recorded: CPUs that came since (DLPAR) are"
        " left alone; those that went are never asked for",
    )
    parser.add_argument("--at-least", type=parse_cpulist, default=frozenset(), help="CPU list to be online")
    parser.add_argument(
        "--staging",
        type=Path,
        help="directory with what a switch kept of interrupts, queues and tasks: they are looked at when the"
        " CPUs are back",
    )
    add_sysroot(parser)


def act(arguments: argparse.Namespace) -> dict[str, Any]:
    """Switch; ToolError when a CPU does not have the state asked for."""
    fs = Sysfs(arguments.sysroot)
    before, level = read_online(fs), read_smt(fs).level
    if arguments.dry_run:
        wrong = wrong_cpus(before, read_present(fs), arguments.exactly, arguments.at_least, arguments.present)
        changed = any(wrong) or (read_control(fs) != NOT_SUPPORTED and level != arguments.level)
        return {"changed": changed, "online": format_cpulist(before), "level": level}
    after = switch(fs, arguments.level, arguments.exactly, arguments.at_least, arguments.present)
    lost = {"lost": placement.put_back(fs, arguments.staging)} if arguments.staging else {}
    reached = read_smt(fs).level
    changed = (before, level) != (after, reached)
    return {"changed": changed, "online": format_cpulist(after), "level": reached, **lost}


def wrong_cpus(
    online: frozenset[int],
    there: frozenset[int],
    exactly: frozenset[int] | None,
    at_least: frozenset[int],
    present: frozenset[int] | None,
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the CPUs that are to be online and are not, and those that are and are not to be."""
    known = there if present is None else there & present
    missing = (at_least if exactly is None else exactly) & there - online
    return missing, frozenset() if exactly is None else online & known - exactly


def switch(
    fs: Sysfs,
    level: str,
    exactly: frozenset[int] | None,
    at_least: frozenset[int],
    present: frozenset[int] | None = None,
) -> frozenset[int]:
    """Bring the host to the state asked for and return the CPUs online after.

    PRESENT are the CPUs that were there when the lists were recorded. Those that DLPAR added since are left
    as they are; those that it removed are not asked for. ToolError (OPERATION), naming the CPUs that have
    the wrong state.
    """
    set_level(fs, level)
    there = read_present(fs)
    known = there if present is None else there & present
    failure = None if exactly is None else bring_cpus(fs, exactly, known)
    after = read_online(fs)
    missing, surplus = wrong_cpus(after, there, exactly, at_least, present)
    if missing or surplus:
        why = f" ({failure.filename or 'a CPU'}: {failure.strerror})" if failure else ""
        raise ToolError(
            f"SMT was set to '{level}' but the wrong CPUs are online: missing"
            f" {format_cpulist(missing) or 'none'}, too many {format_cpulist(surplus) or 'none'}{why}",
            code=ExitCode.OPERATION,
        )
    return after


def set_level(fs: Sysfs, level: str) -> None:
    """Switch SMT through smt/control, or through ppc64_cpu where the kernel lacks that."""
    state = read_control(fs)
    if state not in NO_SWITCH:
        # Where no core has a second thread there is nothing to switch; the CPUs are checked all the same.
        if state in (level, NOT_SUPPORTED):
            return
        try:
            fs.write(SMT_CONTROL, level)
        except OSError as error:
            raise ToolError(
                f"writing '{level}' to {fs.path(SMT_CONTROL)} failed: {error.strerror}",
                code=ExitCode.OPERATION,
            ) from error
        return
    tool = find_program("ppc64_cpu")
    if tool is None:
        raise ToolError(f"cannot switch SMT: neither {fs.path(SMT_CONTROL)} nor ppc64_cpu can")
    command = [tool, f"--smt={level}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        output = result.stdout.decode("utf-8", "replace").strip()
        raise ToolError(
            f"{' '.join(command)} failed with exit code {result.returncode}: {output}",
            code=ExitCode.OPERATION,
        )
