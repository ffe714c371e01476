"""Print, as one JSON object, the state of this host that an A/B kernel run and an audit of clocks depend on.

Read-only. Runs on the measured host, on its own Python (3.9 or newer), fed through standard input.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

TAG = re.compile(r"(?:^|\s)smt_ab\.variant=(\S+)")
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def read_text(path: Path) -> Optional[str]:
    """Return the stripped text of a file, None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> Optional[int]:
    """Return the number in a file, None when there is none."""
    text = read_text(path)
    return int(text) if text is not None and text.isdigit() else None


def without_first(cpus: str) -> str:
    """Return a kernel cpu-list, such as "0-3,8", without its first CPU."""
    head, _, rest = cpus.partition(",")
    first, _, last = head.partition("-")
    second = int(first) + 1 if first else 0
    shorter = "" if not last else last if second == int(last) else f"{second}-{last}"
    return ",".join(filter(None, [shorter, rest]))


def smt_from_ppc64_cpu(output: str) -> Optional[str]:
    """Return the level that `ppc64_cpu --smt` printed, "mixed" when cores differ, None if it printed none."""
    if "SMT is off" in output:
        return "off"
    levels = set(re.findall(r"SMT=(\d+)", output))
    if len(levels) > 1:
        return "mixed"
    level = next(iter(levels), None)
    return "off" if level == "1" else level


def smt_state(sysroot: Path) -> dict[str, Optional[str]]:
    """Return what switches SMT here and the level it reports: on, off, a number, or the kernel's word."""
    control = read_text(sysroot / "sys/devices/system/cpu/smt/control")
    if control is not None:
        return {"interface": "smt/control", "level": control}
    tool = shutil.which("ppc64_cpu", path=SEARCH_PATH)
    if tool is None:
        return {"interface": None, "level": None}
    query = subprocess.run([tool, "--smt"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return {"interface": "ppc64_cpu", "level": smt_from_ppc64_cpu(query.stdout.decode("utf-8", "replace"))}


def lockdown(sysroot: Path) -> str:
    """Return the kernel's lockdown mode, "none" where the kernel has no lockdown."""
    modes = read_text(sysroot / "sys/kernel/security/lockdown") or ""
    chosen = re.search(r"\[(\w+)\]", modes)
    return chosen.group(1) if chosen else "none"


def free_bytes(directory: Path) -> int:
    """Return the free space for root, in bytes, below a directory that need not exist yet."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(str(directory)).free


def read_record(path: Path, keys: tuple[str, ...]) -> Optional[dict[str, Any]]:
    """Return the record in a file, None when there is none, and "unknown" for KEYS when it is damaged."""
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    return record if isinstance(record, dict) else dict.fromkeys(keys, "unknown")


def lock_record(staging: Path) -> Optional[dict[str, Any]]:
    """Return the record of the run that holds this host, None when no run does."""
    return read_record(staging / "lock.json", ("owner", "started", "token"))


def clocksource(sysroot: Path, staging: Path) -> dict[str, Any]:
    """Return the clocksource, those there are, and the record of one that was applied, None without."""
    directory = sysroot / "sys/devices/system/clocksource/clocksource0"
    return {
        "current": read_text(directory / "current_clocksource"),
        "available": (read_text(directory / "available_clocksource") or "").split(),
        "record": read_record(staging / "clocksource.json", ("before", "applied", "boot_id")),
    }


def host_state(sysroot: Path, staging: Path, files: list[str]) -> dict[str, Any]:
    """Gather the whole state; paths of the kernel's files are below sysroot."""
    cmdline = read_text(sysroot / "proc/cmdline") or ""
    tag = TAG.search(cmdline)
    present = read_text(sysroot / "sys/devices/system/cpu/present")
    return {
        "euid": os.geteuid(),
        "machine": os.uname().machine,
        "release": read_text(sysroot / "proc/sys/kernel/osrelease"),
        "boot_id": read_text(sysroot / "proc/sys/kernel/random/boot_id"),
        "cmdline": cmdline,
        "variant": tag.group(1) if tag else None,
        "cpus": {
            "present": present,
            "all_but_first": without_first(present or ""),
            "online": read_text(sysroot / "sys/devices/system/cpu/online"),
        },
        "smt": smt_state(sysroot),
        "kexec": {
            "path": shutil.which("kexec", path=SEARCH_PATH),
            "loaded": read_int(sysroot / "sys/kernel/kexec_loaded"),
            "load_disabled": read_int(sysroot / "proc/sys/kernel/kexec_load_disabled"),
            "lockdown": lockdown(sysroot),
        },
        "systemd_run": shutil.which("systemd-run", path=SEARCH_PATH),
        "free_bytes": free_bytes(staging),
        "lock": lock_record(staging),
        "clocksource": clocksource(sysroot, staging),
        "files": {path: Path(path).is_file() for path in files},
    }


def main() -> int:
    """Parse the command line and print the state."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroot", type=Path, default=Path("/"), help="directory with proc/ and sys/")
    parser.add_argument("--staging", type=Path, required=True, help="directory of the run's files")
    parser.add_argument("--file", action="append", default=[], help="file to look for")
    options = parser.parse_args()
    json.dump(host_state(options.sysroot, options.staging, options.file), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
