"""Which RCU settings make grace periods short for a switch, and when it is refused to touch them.

With rcu_expedited, synchronize_rcu() sends IPIs instead of waiting for every CPU to pass a quiescent
state by itself. What still waits for a normal grace period (call_rcu() and all that is built on it) is
helped by the FQS delays: jiffies until the kernel first, and then again, looks for idle CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.rcu import FQS_BASES, FQS_DELAYS, RCU_EXPEDITED, RCU_NORMAL, fqs_delay
from hotplug_host.setting import Setting
from hotplug_host.sysfs import Sysfs
from hotplug_host.topology import read_possible

#: One jiffy: the kernel takes no less for the second of them.
SHORT_FQS = 1


@dataclass(frozen=True)
class Plan:
    """The settings to change, in order, and what is worth saying about others."""

    settings: tuple[Setting, ...]
    notes: tuple[str, ...] = ()


def plan_settings(fs: Sysfs, tune_fqs: bool) -> Plan:
    """Return what to change; ToolError (ENVIRONMENT) when a setting is missing, or not as it was booted.

    A value that is not the kernel's own was set by somebody, who may put it back at any time: what
    would be restored afterwards is then unknown.
    """
    require_as_booted(fs, "switch without --expedite")
    settings, notes = [Setting(RCU_EXPEDITED, "0", "1")], []
    for name in FQS_DELAYS if tune_fqs else ():
        delay = _plan_delay(fs, name)
        if delay is None:
            notes.append(f"{fs.path(name)} is {SHORT_FQS} or less as it is")
        else:
            settings.append(delay)
    return Plan(tuple(settings), tuple(notes))


def require_as_booted(fs: Sysfs, otherwise: str) -> None:
    """Raise ToolError (ENVIRONMENT) unless rcu_expedited is there, is 0 and would work.

    OTHERWISE is what to do without it.
    """
    expedited = fs.read_optional(RCU_EXPEDITED)
    if expedited is None:
        raise _refusal(
            f"{fs.path(RCU_EXPEDITED)} is not there",
            f"this kernel cannot expedite grace periods: {otherwise}",
        )
    if expedited != "0":
        raise _refusal(
            f"{fs.path(RCU_EXPEDITED)} says {expedited} already, so somebody else holds it",
            f"grace periods are expedited as it is: {otherwise}; if that is not needed, write 0 there first",
        )
    if fs.read_optional(RCU_NORMAL) not in (None, "0"):
        raise _refusal(
            f"{fs.path(RCU_NORMAL)} forbids expedited grace periods, as real-time kernels do",
            f"{otherwise}, or write 0 there first",
        )


def default_delays(possible: frozenset[int]) -> tuple[int, ...]:
    """Return the FQS delays, in jiffies, that kernels choose by themselves for so many CPUs.

    rcu_init_geometry(): 1, 2 or 3 by HZ (up to 250, up to 500, above), and one more for 256 CPUs.
    """
    return tuple(fqs_delay(base, max(possible) + 1) for base in FQS_BASES)


def _plan_delay(fs: Sysfs, name: str) -> Setting | None:
    text = fs.read_optional(name)
    if text is None or not text.isdecimal():
        raise _refusal(f"{fs.path(name)} is not there", "switch without --tune-fqs")
    defaults = default_delays(read_possible(fs))
    # 0 is the first one's own in kernels with strict grace periods.
    if int(text) not in (0, *defaults):
        raise _refusal(
            f"{fs.path(name)} says {text}, and the kernel's own choice is {' or '.join(map(str, defaults))},"
            " so somebody else holds it",
            "switch without --tune-fqs, or write the kernel's choice there first",
        )
    if int(text) <= SHORT_FQS:
        return None
    return Setting(name, text, str(SHORT_FQS))


def _refusal(message: str, hint: str) -> ToolError:
    return ToolError(message, hint, ExitCode.ENVIRONMENT)
