"""Bring this host to an SMT level, if asked to an exact set of online CPUs, and print the outcome as JSON.

Runs on the measured host, on its own Python (3.9 or newer), fed through standard input. Exit code 0 means
that the level was accepted and every CPU asked for has the state asked for; otherwise "error" says why not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Optional

SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
#: What smt/control says where it switches nothing, as on POWER before 6.6.
NOT_IMPLEMENTED = "notimplemented"
#: What it says where no core has a second thread.
NOT_SUPPORTED = "notsupported"


class SwitchError(Exception):
    """The host did not take the state asked for."""


def parse_cpu_list(text: str) -> set[int]:
    """Return the CPUs of a kernel cpu-list such as "0-3,8"."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def format_cpus(cpus: set[int]) -> str:
    """Return CPUs as a sorted, comma-separated list."""
    return ",".join(str(cpu) for cpu in sorted(cpus))


def online_cpus(cpu_dir: Path) -> set[int]:
    """Return the CPUs that are online now."""
    return parse_cpu_list((cpu_dir / "online").read_text(encoding="utf-8"))


def set_level(cpu_dir: Path, level: str) -> None:
    """Switch SMT through smt/control, or through ppc64_cpu where the kernel lacks that."""
    control = cpu_dir / "smt" / "control"
    state = control.read_text(encoding="utf-8").strip() if control.exists() else NOT_IMPLEMENTED
    if state != NOT_IMPLEMENTED:
        # Where no core has a second thread there is nothing to switch; the CPUs are checked all the same.
        if state in (level, NOT_SUPPORTED):
            return
        try:
            control.write_text(level, encoding="utf-8")
        except OSError as error:
            raise SwitchError(f"writing '{level}' to {control} failed: {error.strerror}") from error
        return
    tool = shutil.which("ppc64_cpu", path=SEARCH_PATH)
    if tool is None:
        raise SwitchError(f"cannot switch SMT: neither {control} nor ppc64_cpu can")
    command = [tool, f"--smt={level}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        output = result.stdout.decode("utf-8", "replace").strip()
        raise SwitchError(f"{' '.join(command)} failed with exit code {result.returncode}: {output}")


def set_cpu(cpu_dir: Path, cpu: int, online: bool) -> None:
    """Bring one CPU online or offline."""
    switch = cpu_dir / f"cpu{cpu}" / "online"
    try:
        switch.write_text("1" if online else "0", encoding="utf-8")
    except OSError as error:
        state = "online" if online else "offline"
        raise SwitchError(f"CPU {cpu} cannot be brought {state}: {error.strerror}") from error


def match_exactly(cpu_dir: Path, wanted: set[int]) -> None:
    """Bring single CPUs online or offline until exactly the wanted ones are online."""
    for cpu in sorted(wanted - online_cpus(cpu_dir)):
        set_cpu(cpu_dir, cpu, online=True)
    for cpu in sorted(online_cpus(cpu_dir) - wanted):
        set_cpu(cpu_dir, cpu, online=False)


def switch(cpu_dir: Path, level: str, exactly: Optional[set[int]], at_least: set[int]) -> set[int]:
    """Bring the host to the state asked for and return the CPUs online after.

    Raises SwitchError, naming the CPUs that have the wrong state.
    """
    set_level(cpu_dir, level)
    if exactly is not None:
        match_exactly(cpu_dir, exactly)
    after = online_cpus(cpu_dir)
    missing = at_least - after if exactly is None else exactly - after
    surplus = set() if exactly is None else after - exactly
    if missing or surplus:
        raise SwitchError(
            f"SMT was set to '{level}' but the wrong CPUs are online:"
            f" missing {format_cpus(missing) or 'none'}, too many {format_cpus(surplus) or 'none'}"
        )
    return after


def main() -> int:
    """Parse the command line, switch, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroot", type=Path, default=Path("/"), help="directory with sys/")
    parser.add_argument("--level", required=True, help="on, off, or a number of threads per core")
    parser.add_argument("--exactly", type=parse_cpu_list, help="cpu-list to be online, and nothing else")
    parser.add_argument("--at-least", type=parse_cpu_list, default=set(), help="cpu-list to be online")
    options = parser.parse_args()
    cpu_dir = options.sysroot / "sys/devices/system/cpu"
    before = online_cpus(cpu_dir)
    try:
        after = switch(cpu_dir, options.level, options.exactly, options.at_least)
    except SwitchError as error:
        json.dump({"error": str(error)}, sys.stdout)
        return 1
    json.dump({"changed": before != after, "online": format_cpus(after)}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
