"""Frequency levels, and holding all CPUs at one of them.

A level is held by the limits, `scaling_min_freq` and `scaling_max_freq` both at it. That works with every
governor and driver, so the governor stays the one that is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from hotplug_host.cpulist import parse_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.guardian import Purpose
from hotplug_host.setting import Setting
from hotplug_host.sysfs import CPU_DIR, Sysfs

DIRECTORY = f"{CPU_DIR}/cpufreq"
#: How many levels are made of a driver's range where it does not list any.
STEPS = 5


@dataclass(frozen=True)
class Policy:
    """CPUs that share one frequency. Frequencies are in kHz; `levels` are within the limits, ascending.

    `beyond` are levels outside of the limits as they are: an operator set those, so they are left out.
    """

    name: str
    cpus: frozenset[int]
    driver: str
    governor: str
    minimum: int
    maximum: int
    levels: tuple[int, ...]
    beyond: tuple[int, ...]

    def file(self, name: str) -> str:
        """Return one of its files."""
        return f"{DIRECTORY}/{self.name}/{name}"


def read_policies(fs: Sysfs) -> tuple[Policy, ...]:
    """Return the policies there are; ToolError (ENVIRONMENT) where there is no cpufreq."""
    # A policy whose CPUs are all offline is kept, and says nothing.
    found = [path.name for path in fs.glob(DIRECTORY, "policy*")]
    names = [name for name in found if fs.read_optional(f"{DIRECTORY}/{name}/affected_cpus")]
    if not names:
        raise ToolError(
            f"{fs.path(DIRECTORY)} has no policies: this machine's frequencies are not the kernel's to set"
            " (as in most guests and LPARs)",
            "run pstates on the host or on bare metal; drift needs no cpufreq",
            ExitCode.ENVIRONMENT,
        )
    return tuple(_policy(fs, name) for name in sorted(names, key=lambda name: int(name[6:] or 0)))


def walk(policies: tuple[Policy, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the steps of the walk, each with one frequency (kHz) per policy, the highest step first."""
    longest = max(len(policy.levels) for policy in policies)
    return tuple(
        tuple(policy.levels[max(len(policy.levels) - 1 - step, 0)] for policy in policies)
        for step in range(longest)
    )


def plan(policies: tuple[Policy, ...], frequencies: tuple[int, ...]) -> tuple[Setting, ...]:
    """Return what holds each policy at its frequency.

    The upper limit goes first, and comes back last: at no moment is it below the lower one.
    """
    settings = []
    for policy, frequency in zip(policies, frequencies):
        for file, before in (("scaling_max_freq", policy.maximum), ("scaling_min_freq", policy.minimum)):
            if before != frequency:
                settings.append(Setting(policy.file(file), str(before), str(frequency)))
    return tuple(settings)


def read_frequencies(fs: Sysfs, policies: tuple[Policy, ...]) -> dict[str, int]:
    """Return what each policy runs at now (kHz), as far as its driver says."""
    found = {policy.name: fs.read_optional(policy.file("scaling_cur_freq")) for policy in policies}
    return {name: int(text) for name, text in found.items() if text and text.isdecimal()}


def purpose(policies: tuple[Policy, ...]) -> Purpose:
    """Return what to hold the limits for."""
    return Purpose(
        lock=policies[0].file("scaling_max_freq"),
        what="frequency limits",
        command="clock-check pstates",
        without="measure without pstates, with drift",
    )


def _policy(fs: Sysfs, name: str) -> Policy:
    def number(file: str) -> int:
        text = fs.read(f"{DIRECTORY}/{name}/{file}")
        if not text.isdecimal():
            raise ToolError(f"{fs.path(DIRECTORY)}/{name}/{file} says {text!r}, not a frequency")
        return int(text)

    def text(file: str) -> str:
        return fs.read_optional(f"{DIRECTORY}/{name}/{file}") or ""

    minimum, maximum = number("scaling_min_freq"), number("scaling_max_freq")
    listed = {int(word) for word in text("scaling_available_frequencies").split() if word.isdecimal()}
    if not listed:
        low, high = number("cpuinfo_min_freq"), number("cpuinfo_max_freq")
        listed = {low + (high - low) * step // (STEPS - 1) for step in range(STEPS)}
    levels = tuple(sorted(level for level in listed if minimum <= level <= maximum)) or (maximum,)
    return Policy(
        name=name,
        cpus=parse_cpulist(",".join(text("affected_cpus").split())),
        driver=text("scaling_driver") or "unknown",
        governor=text("scaling_governor") or "unknown",
        minimum=minimum,
        maximum=maximum,
        levels=levels,
        beyond=tuple(sorted(listed - set(levels))),
    )
