"""Saving the host's SMT state and putting exactly that back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hotplug_host.child import Watch, run_function
from hotplug_host.errors import ToolError
from hotplug_host.sysfs import SMT_ACTIVE, SMT_CONTROL, Sysfs
from hotplug_host.topology import cpu_file, describe_difference, read_control, read_online, read_present

IRQS = "/proc/irq"


@dataclass(frozen=True)
class SavedState:
    """What smt/control said, and which CPUs were there and online, before the run."""

    control: str | None
    active: str | None
    online: frozenset[int]
    present: frozenset[int]


def save_state(fs: Sysfs) -> SavedState:
    """Read the state to come back to."""
    return SavedState(read_control(fs), fs.read_optional(SMT_ACTIVE), read_online(fs), read_present(fs))


def restore_state(fs: Sysfs, saved: SavedState, timeout_s: float) -> str | None:
    """Put the saved state back: smt/control first, then each CPU that still differs.

    Returns None when the CPUs online are exactly those saved, else one line on what differs and why.
    Never raises and is not ended early by signals; bounded by TIMEOUT_S.
    """
    try:
        if difference(fs, saved) is None:
            return None
        result = run_function(lambda: _put_back(fs, saved), Watch(timeout_s))
        left = difference(fs, saved)
    except (ToolError, OSError) as error:
        return str(error)
    if left is None:
        return None
    return f"{left} ({result.error})" if result.error else left


def read_affinities(fs: Sysfs) -> dict[str, str]:
    """Return the CPU list of each interrupt, by its file."""
    names = (f"{IRQS}/{path.parent.name}/smp_affinity_list" for path in fs.glob(IRQS, "*/smp_affinity_list"))
    return {name: cpus for name in names if (cpus := fs.read_optional(name)) is not None}


def put_affinities_back(fs: Sysfs, saved: Mapping[str, str]) -> list[str]:
    """Give interrupts the CPUs back that they lost; returns those that refused.

    The kernel moves an interrupt whose CPUs all go offline to the others, and leaves it there.
    """
    refused = []
    for name, cpus in saved.items():
        if fs.read_optional(name) not in (None, cpus):
            try:
                fs.write(name, cpus)
            except OSError:
                refused.append(name.split("/")[-2])
    return refused


def difference(fs: Sysfs, saved: SavedState) -> str | None:
    """Return how the host differs from the saved state; None when it does not."""
    control = read_control(fs)
    if control != saved.control:
        return f"smt/control says {control}, before the run it said {saved.control}"
    known = _known(fs, saved)
    return describe_difference(saved.online & known, read_online(fs) & known)


def _known(fs: Sysfs, saved: SavedState) -> frozenset[int]:
    """Return the CPUs whose state is ours to put back.

    Ones that came or went meanwhile (DLPAR) are their holder's.
    """
    return saved.present & read_present(fs)


def _put_back(fs: Sysfs, saved: SavedState) -> None:
    """Do the writes. A CPU that refuses does not keep the others from being put back."""
    failure: OSError | None = None
    if saved.control is not None and read_control(fs) != saved.control:
        try:
            fs.write(SMT_CONTROL, saved.control)
        except OSError as error:
            failure = error
    known = _known(fs, saved)
    # What smt/control cannot express: CPUs and cores that were taken offline one by one.
    failure = failure or bring_cpus(fs, saved.online, known)
    if failure is not None:
        raise failure


def bring_cpus(fs: Sysfs, wanted: frozenset[int], known: frozenset[int]) -> OSError | None:
    """Bring single CPUs online or offline so that, of those KNOWN, exactly those WANTED are online.

    Returns the first refusal. A CPU that refuses does not keep the others from being brought there.
    """
    failure: OSError | None = None
    online = read_online(fs)
    for value, cpus in (("1", known & wanted - online), ("0", known & online - wanted)):
        for cpu in sorted(cpus):
            try:
                fs.write(cpu_file(cpu), value)
            except OSError as error:
                failure = failure or error
    return failure
