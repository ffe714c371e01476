"""The `preflight` command: says whether this host is fit for what is planned, changing nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from hotplug_host.arguments import MAKE
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.preflight.facts import Facts, read_facts
from hotplug_host.preflight.judge import NO_GO, Judgement, Plan, judge
from hotplug_host.preflight.lpar import Platform
from hotplug_host.sysfs import Sysfs
from hotplug_host.text import printable


@dataclass(frozen=True)
class PreflightSettings:
    """What the user asked for; FILES are further ones to look for."""

    plan: Plan
    files: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    """Releases of the installed kernels that the boot loader is to boot."""
    as_json: bool = False


def preflight(settings: PreflightSettings, fs: Sysfs, stream: TextIO) -> None:
    """Look, judge and print; ToolError (ENVIRONMENT) for a host that is no-go, unless JSON says so."""
    plan = settings.plan
    given = [plan.initrd] if plan.initrd not in ("", MAKE) else []
    files = tuple(dict.fromkeys((*settings.files, *given)))
    facts = read_facts(fs, Path(plan.staging), files, settings.installed)
    judgement = judge(facts, plan)
    if settings.as_json:
        answer = {
            **asdict(judgement),
            "purpose": plan.purpose,
            "facts": asdict(facts),
        }
        stream.write(f"{json.dumps(answer)}\n")
        return
    stream.write("\n".join(map(printable, lines(facts, judgement, plan))) + "\n")
    if judgement.verdict == NO_GO:
        stops = sum(reason.level == NO_GO for reason in judgement.reasons)
        raise ToolError(f"no-go for {plan.purpose}", f"{stops} above to see to", ExitCode.ENVIRONMENT)


def lines(facts: Facts, judgement: Judgement, plan: Plan) -> list[str]:
    """Return what people read: facts, reasons, and the verdict last."""
    cpus, kexec, platform, program = facts.cpus, facts.kexec, facts.platform, facts.ppc64_cpu
    rows = [
        ("kernel", facts.release),
        ("command line", facts.cmdline),
        ("CPUs", f"{cpus.online} online of {cpus.present}, {cpus.threads_per_core} threads per core"),
        ("SMT", f"{facts.smt.level}, by {facts.smt.interface}"),
        ("processors", _processors(platform)),
        ("hypervisor", platform.hypervisor),
        ("secure boot", _word(platform.secure_boot, "off", "on")),
        ("lockdown", kexec.lockdown),
        ("kexec", kexec.path),
        ("kdump", _word(kexec.crash_loaded, "not loaded", "loaded")),
        ("fadump", _word(kexec.fadump, "not registered", "registered")),
        ("ppc64_cpu", f"{program.version or program.path}, by {program.switches_by}" if program else None),
        ("Python", facts.python),
    ]
    shown = [f"{name}: {value}" for name, value in rows if value]
    reasons = [f"{reason.level}: {reason}" for reason in judgement.reasons]
    return [*shown, *reasons, f"{judgement.verdict} for {plan.purpose}"]


def _processors(platform: Platform) -> str | None:
    """Return how an LPAR has its processors, in words."""
    words = [
        platform.lpar_mode,
        f"entitled to {platform.entitled:g}" if platform.entitled is not None else None,
    ]
    return ", ".join(filter(None, [*words, _word(platform.capped, "uncapped", "capped")])) or None


def _word(value: int | None, no: str, yes: str) -> str | None:
    """Return the word for a setting, None where the host does not say."""
    return None if value is None else yes if value else no
