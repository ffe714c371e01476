"""A tiny fake host with clocksources and frequency levels, and a fake clock-probe."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from hotplug_host.cpulist import format_cpulist

CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"
CPUFREQ = "sys/devices/system/cpu/cpufreq"
CPU = "sys/devices/system/cpu"
Line = dict[str, Any]
#: CPUs that this machine really has and this process may use, as the real probe runs on them.
CPUS = tuple(sorted(os.sched_getaffinity(0))[:2])


class FakeClocks:
    """One fake host below ROOT. Its kernel files are plain ones: what is written is what they say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for which in ("possible", "present", "online"):
            self.put(f"{CPU}/{which}", format_cpulist(CPUS))
        self.put(f"{CLOCKSOURCE}/current_clocksource", "tsc")
        self.put(f"{CLOCKSOURCE}/available_clocksource", "tsc hpet acpi_pm ")
        self.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 7B13")
        self.put("proc/sys/kernel/osrelease", "6.12.117-stock-1a2b3c4d")
        self.put("proc/sys/kernel/hostname", "server1")
        self.put("proc/sys/kernel/arch", "x86_64")
        self.put("proc/sys/kernel/version", "#1 SMP")
        self.put("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
        self.put("proc/cmdline", "quiet")
        self.log("Linux version 6.12")

    def say_of_cpus(self, *flags: str) -> None:
        """Give all CPUs these flags in /proc/cpuinfo, beside some of no interest."""
        lines = [f"processor\t: {cpu}\nflags\t\t: fpu {' '.join(flags)} lm\n" for cpu in CPUS]
        self.put("proc/cpuinfo", "".join(lines))

    def log(self, *messages: str, first: int = 0) -> None:
        """Have the kernel log these messages, the first under this number, each a second after the other."""
        lines = [f"6,{first + at},{at}000000,-;{text}\n" for at, text in enumerate(messages)]
        self.put("dev/kmsg", "".join(lines))

    def add_cpufreq(self, levels: str = "1000000 2000000 3000000", *, maximum: int = 3000000) -> None:
        """Give each CPU a policy of its own, with these levels (kHz)."""
        for number, cpu in enumerate(CPUS):
            for name, text in {
                "affected_cpus": str(cpu),
                "scaling_driver": "acpi-cpufreq",
                "scaling_governor": "schedutil",
                "scaling_available_frequencies": levels,
                "scaling_min_freq": "1000000",
                "scaling_max_freq": str(maximum),
                "scaling_cur_freq": "1234567",
                "cpuinfo_min_freq": "1000000",
                "cpuinfo_max_freq": "3000000",
            }.items():
                self.put(f"{CPUFREQ}/policy{number}/{name}", text)

    @property
    def clocksource(self) -> str:
        return self.get(f"{CLOCKSOURCE}/current_clocksource")

    def limits(self) -> list[tuple[str, str, str]]:
        """Return each policy's limits and governor."""
        folders = [f"{CPUFREQ}/policy{number}" for number in range(len(CPUS))]
        return [
            (
                self.get(f"{folder}/scaling_min_freq"),
                self.get(f"{folder}/scaling_max_freq"),
                self.get(f"{folder}/scaling_governor"),
            )
            for folder in folders
        ]

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def get(self, name: str) -> str:
        return (self.root / name).read_text().strip()


def write_probe(path: Path, replies: dict[str, list[Line]], extra: str = "") -> Path:
    """Write a fake probe that prints these lines per command, after the Python statements in EXTRA."""
    path.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys, time\ncommand = sys.argv[1]\n"
        f"with open({str(path) + '.log'!r}, 'a') as log:\n    log.write(json.dumps(sys.argv[1:]) + '\\n')\n"
        f"{extra}\n"
        f"for line in json.loads({json.dumps(replies)!r})[command]:\n    print(json.dumps(line))\n"
    )
    path.chmod(0o755)
    return path


def calls_of(path: Path) -> list[list[str]]:
    """Return the arguments of every call of a fake probe, without the parent that each of them names."""
    calls = []
    for line in Path(f"{path}.log").read_text().splitlines():
        *arguments, parent = json.loads(line)
        assert parent == f"--parent={os.getpid()}"
        calls.append(arguments)
    return calls


def thread(cpu: int, *, moved: bool = False) -> Line:
    return {"cpu": cpu, "calls": 1_000_000, "elapsed_ns": 25_000_000, "cpu_ns": 25_000_000, "moved": moved}


def sample(cpu: int, now: int, late: int) -> Line:
    """One whose reference is LATE nanoseconds behind."""
    return {"cpu": cpu, "before_ns": now + late, "reference_ns": now + 7, "after_ns": now + late + 60}


def offset(cpu: int, ahead_ns: int) -> Line:
    bounds = {"low_ns": ahead_ns - 80, "high_ns": ahead_ns + 80}
    return {"cpu": cpu, "base": CPUS[0], **bounds, "rounds": 2000, "moved": False}


def replies(
    *, violations: int = 0, moved: bool = False, offset_ns: int = 0, jump_ns: int = 0
) -> dict[str, list[Line]]:
    """Return what a probe says of a clock that is right, or wrong in the ways given."""
    threads = [thread(cpu, moved=moved and cpu == CPUS[-1]) for cpu in CPUS]
    times = [(at, 1_000_000_000 + at * 100_000_000) for at in range(20)]
    order = {
        "vdso": True,
        "calls": 2_000_000,
        "crossed": 1_000,
        "violations": violations,
        "worst_ns": 120 if violations else 0,
        "threads": threads,
    }
    return {
        "scale": [{"vdso": True, "threads": threads}],
        "order": [order],
        "offset": [offset(cpu, offset_ns) for cpu in CPUS[1:]],
        "drift": [sample(CPUS[at % len(CPUS)], now, jump_ns if at >= 10 else 0) for at, now in times],
        "selftest": [{"checks": 21, "failures": 0}],
    }
