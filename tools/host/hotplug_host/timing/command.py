"""The commands that run on measured hosts: their options, and the main of the copy that travels there."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotplug_host import __version__
from hotplug_host.arguments import (
    add_host_arguments,
    add_sysroot,
    count,
    cpus,
    given,
    pause,
    positive,
    seconds,
)
from hotplug_host.entry import Parser
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import SMT, name_of, parse_one
from hotplug_host.preflight.drivers import ALLOWABLE, Kernel, read_config
from hotplug_host.preflight.judge import AB, PURPOSES, Plan
from hotplug_host.preflight.preflight import PreflightSettings, preflight
from hotplug_host.records import TIMER
from hotplug_host.signals import StopRequest
from hotplug_host.subcommands import add_commands, add_subcommand, run_command
from hotplug_host.sysfs import Sysfs
from hotplug_host.timing.costs import CostSettings, measure_costs
from hotplug_host.timing.cycle import parse_operations
from hotplug_host.timing.hooks import parse_hook
from hotplug_host.timing.operation import SmtLevel
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.runner import Runner
from hotplug_host.timing.smt import SmtSettings, SmtSwitch
from hotplug_host.timing.switch import VIA_CHOICES, VIA_OF
from hotplug_host.timing.tracing import MODES

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

PROGRAM = TIMER
RUN_SUMMARY = "time SMT and CPU switches on this host"
RUN_DESCRIPTION = """\
Time SMT and CPU switches on this host. The OPERATIONs form a cycle that every iteration goes through
once, in order; all of them are of one kind. Each transition is verified CPU by CPU, and recorded on disk
before the next one.
The SMT state and the exact set of online CPUs from before come back on every way out, Ctrl-C included.
"""
COSTS_SUMMARY = "measure what the parts of a switch cost here, from a few CPUs"
COSTS_DESCRIPTION = """\
Measure what the parts of a CPU switch cost on this machine, on the kernel that it runs: a grace period, a
rendezvous, a rebuild of the scheduler domains, one CPU's callbacks, its death and its start. The command
switches 8 CPUs of the whole machine off and on eleven times, in minutes, and counts, times and traces it.
Before that, it keeps all CPUs busy for a moment, at the lowest priority, to learn how they share processors.
From the result, `predict` predicts how long smt=off and smt=on take here with the patched kernel.
`preflight --for time` comes first. CPUs and RCU settings come back on every way out, kill -9 included.
Beside FILE it writes two traces as text, which belong to FILE.
"""
COSTS_EPILOG = """\
examples:
  hotplug-timer measure-costs --output costs.jsonl
  hotplug-timer predict costs.jsonl
  # other CPUs than the last 8 that smt=off takes
  hotplug-timer measure-costs --cpus 100-103,200-203 --output costs.jsonl
"""
SMT_SUMMARY = "switch SMT on this host, with expedited grace periods if asked for"
SMT_DESCRIPTION = """\
Switch SMT on this host and verify which CPUs are online afterwards. With --expedite, RCU grace periods are
expedited while the switch lasts: much of what a patched kernel gains, on the kernel you have. It costs the
other CPUs an interrupt per grace period, so it is for the switch only. The settings are put back on every
way out, by a process that outlives this one when it is killed.
"""
SMT_EPILOG = """\
examples:
  # what would be written; needs no root
  hotplug-timer smt off --expedite --tune-fqs --dry-run
  hotplug-timer smt off --expedite
  hotplug-timer smt 4 --expedite --tune-fqs

Where everything is as asked for already, it reports that and writes nothing.
It refuses when a setting is not as the kernel booted: somebody else holds it then.
"""
PREFLIGHT_SUMMARY = "report whether this host is fit for a switch, a timing or an A/B run"
PREFLIGHT_DESCRIPTION = """\
Report whether this host is fit for what is planned: go, go-with-warnings, or no-go, each reason with what to
do about it. Reads CPUs, SMT, how the LPAR shares its processors, what kexec needs, kdump, ppc64_cpu and its
way, room on the disks, the lock of a run, and what is bound to CPUs that smt=off takes: tasks, cpusets.
Changes nothing. A host that is no-go ends it with exit code 3; with --json the verdict is in what it prints.
"""
PREFLIGHT_EPILOG = """\
examples:
  # before smt off --expedite
  hotplug-timer preflight --for switch
  hotplug-timer preflight --for time --json
"""
OPERATION_HELP = (
    "smt=off, smt=on or smt=K threads per core; cores-on=K or cores-on=all, as ppc64_cpu --cores-on;"
    " cpus=LIST:off or cpus=LIST:on, one by one through cpuN/online; cpus=LIST for both of these."
    " @SECONDS after it is a time limit of its own, as in smt=off@600"
)
RUN_EPILOG = """\
examples:
  # ten times off and on: seconds first, then one counted round
  hotplug-timer run smt=off smt=on --variant stock --iterations 10 --output stock.jsonl
  # only off; SMT comes on again between the iterations, untimed
  hotplug-timer run smt=off --variant patched --iterations 5 --output patched.jsonl
  # 127 of 128 CPUs offline and online again, one by one
  hotplug-timer run cpus=1-127 --variant stock --iterations 10 --output cpus.jsonl
  # with a load on the machine, which --cleanup ends; off may take an hour, on a minute
  hotplug-timer run smt=off@3600 smt=on@60 --variant busy --iterations 5 --output busy.jsonl \\
      --prepare 'systemctl start load.service' --cleanup 'systemctl stop load.service'
  # where the time goes: two traced rounds after the timed ones, to be read with `hotplug-timer trace`
  hotplug-timer run smt=off smt=on --variant stock --iterations 3 --output stock.jsonl \\
      --trace states --trace offcpu
  # go on after a Ctrl-C, a full disk or a reboot
  hotplug-timer run smt=off smt=on --variant stock --iterations 10 --output stock.jsonl --resume

A second Ctrl-C ends the switch that is running instead of waiting for it.
"""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument("operations", nargs="+", metavar="OPERATION", help=OPERATION_HELP)
    parser.add_argument(
        "--variant", type=given, required=True, help="the variant that is measured, for example stock"
    )
    parser.add_argument("--iterations", type=positive, required=True, metavar="N", help="timed iterations")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="result file (JSON Lines) to write"
    )
    parser.add_argument(
        "--count-iterations",
        type=count,
        default=1,
        metavar="N",
        help="iterations after the timed ones that count grace-period waits, stop_machine rendezvous"
        " and sched-domain rebuilds (default: %(default)s)",
    )
    parser.add_argument(
        "--warmup",
        type=count,
        default=0,
        metavar="N",
        help="iterations before the timed ones (default: %(default)s)",
    )
    _add_settle(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=7200.0,
        metavar="S",
        help="seconds one transition may take (default: %(default)s)",
    )
    parser.add_argument(
        "--trace",
        action="append",
        choices=MODES,
        default=[],
        help="record one iteration more with trace-cmd, after the others and never timed, into a file beside"
        " FILE: calls that cost the whole machine (counts), cpuhp states (states), waits with their stacks"
        " (offcpu), or the function graph of one CPU's switch (graph); may be given once for each",
    )
    parser.add_argument(
        "--trace-buffer",
        type=positive,
        metavar="KB",
        help="each CPU's trace buffer in KiB; it bounds memory and file, and what does not fit fails the run"
        " (default: 512 MiB for all CPUs together, at most 8192)",
    )
    for hook, when in (("prepare", "before"), ("cleanup", "after")):
        parser.add_argument(
            f"--{hook}",
            metavar="COMMAND",
            help=f"run COMMAND {when} each switch, off the clock; split into words as a shell does, but"
            " run without one",
        )
    parser.add_argument("--resume", action="store_true", help="continue FILE where an earlier run left off")
    add_sysroot(parser)
    parser.add_argument(
        "--via",
        choices=VIA_CHOICES,
        default="auto",
        help="what does the switch: ppc64_cpu, a write to smt/control, writes to cpuN/online, or auto:"
        " ppc64_cpu where it is there and can, and a write where not (default: %(default)s)",
    )
    add_host_arguments(parser)


def _add_settle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settle",
        type=pause,
        default=1.0,
        metavar="S",
        help="seconds to wait after each transition (default: %(default)s)",
    )


def add_costs_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `measure-costs`."""
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="result file (JSON Lines) to write"
    )
    parser.add_argument(
        "--cpus",
        type=cpus,
        metavar="LIST",
        help="the CPUs to switch (default: the last 8 of those that smt=off takes)",
    )
    parser.add_argument(
        "--variant", type=given, default="stock", help="the kernel that runs (default: %(default)s)"
    )
    _add_settle(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=600.0,
        metavar="S",
        help="seconds one transition may take (default: %(default)s)",
    )
    add_sysroot(parser)
    add_host_arguments(parser)


def add_smt_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `smt`."""
    parser.add_argument("level", metavar="LEVEL", help="off, on, or a number of threads per core")
    parser.add_argument(
        "--expedite",
        action="store_true",
        help="expedite RCU grace periods while the switch lasts (/sys/kernel/rcu_expedited)",
    )
    parser.add_argument(
        "--tune-fqs",
        action="store_true",
        help="with --expedite: also let RCU look for idle CPUs after one jiffy (jiffies_till_first_fqs and"
        " jiffies_till_next_fqs of the rcutree module)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be written, and end")
    parser.add_argument(
        "--json", action="store_true", help="print what was done, or would be, as one line of JSON"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=7200.0,
        metavar="S",
        help="seconds the switch may take (default: %(default)s)",
    )
    add_sysroot(parser)
    parser.add_argument(
        "--via",
        choices=VIA_OF[SMT],
        default="auto",
        help="what does the switch: ppc64_cpu, a write to smt/control, or auto, the first of them that"
        " is there (default: %(default)s)",
    )


def add_preflight_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `preflight`."""
    default = Plan()
    parser.add_argument(
        "--for",
        dest="purpose",
        choices=PURPOSES,
        default=AB,
        help="what is planned: one `smt --expedite` (switch), timing switches on the running kernel (time),"
        " an A/B run of kernels (ab), or leaving the host on another kernel, started by kexec (deploy) or by"
        " its boot loader (install) (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print facts and judgement as one line of JSON")
    parser.add_argument(
        "--staging",
        default=default.staging,
        metavar="DIR",
        help="directory of a run's files and its lock (default: %(default)s)",
    )
    parser.add_argument(
        "--need-bytes",
        type=count,
        default=0,
        metavar="N",
        help="room that the run needs there (default: %(default)s)",
    )
    parser.add_argument(
        "--boot-bytes",
        type=count,
        default=0,
        metavar="N",
        help="room that the kernel's package needs in /boot (install) (default: %(default)s)",
    )
    parser.add_argument(
        "--no-kexec",
        action="store_true",
        help="with --for ab: the boot loader boots the kernels",
    )
    parser.add_argument(
        "--kexec-file-load",
        action="store_true",
        help="kernels are signed and loaded by kexec_file_load, as a locked-down kernel demands",
    )
    parser.add_argument(
        "--unsigned",
        action="append",
        default=[],
        metavar="FILE",
        help="a kernel that carries no signature is to be booted; may be given again",
    )
    parser.add_argument(
        "--installed",
        action="append",
        default=[],
        metavar="RELEASE",
        help="an installed kernel that the boot loader is to boot; may be given again",
    )
    parser.add_argument(
        "--kernel",
        type=kernel,
        action="append",
        default=[],
        metavar="JSON",
        help="a kernel to boot, as hotplug_common.kernel.drivers prints it; may be given again",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="the configuration of a kernel to boot; may be given again",
    )
    parser.add_argument(
        "--allow-missing",
        action="append",
        default=[],
        choices=ALLOWABLE,
        help="let a kernel lack what the host has of this; may be given again",
    )
    parser.add_argument(
        "--initrd", default="", metavar="FILE", help="initial RAM disk that the kernels are booted with"
    )
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="report whether FILE is there; may be given again",
    )
    parser.add_argument(
        "--rollback",
        default=default.rollback,
        metavar="STEP",
        help="what to tell about a host that a run left changed (default: %(default)s)",
    )
    add_sysroot(parser)


def kernel(text: str) -> Kernel:
    """Return a kernel by its JSON, for argparse."""
    try:
        fields: dict[str, Any] = json.loads(text)
        if fields.get("modules") is not None:
            fields["modules"] = tuple(fields["modules"])
        return Kernel(**fields)
    except (ValueError, TypeError, AttributeError) as error:
        raise argparse.ArgumentTypeError("that is no JSON of a kernel") from error


def _configured(name: str) -> Kernel:
    """Return the kernel of a configuration file."""
    try:
        return read_config(Path(name).read_text(encoding="utf-8", errors="replace"), f"of {name}")
    except OSError as error:
        raise ToolError(
            f"cannot read {name}: {error.strerror}", "name a kernel's .config", ExitCode.INPUT
        ) from error


def look(arguments: argparse.Namespace) -> None:
    """Do what `preflight` was asked for; ToolError for a host that is no-go."""
    plan = Plan(
        purpose=arguments.purpose,
        staging=arguments.staging,
        need_bytes=arguments.need_bytes,
        boot_bytes=arguments.boot_bytes,
        kexec=not arguments.no_kexec,
        kexec_file_load=arguments.kexec_file_load,
        unsigned=tuple(arguments.unsigned),
        initrd=arguments.initrd,
        kernels=(*arguments.kernel, *map(_configured, arguments.config)),
        allow_missing=tuple(arguments.allow_missing),
        rollback=arguments.rollback,
    )
    preflight(
        PreflightSettings(plan, tuple(arguments.file), tuple(arguments.installed), arguments.json),
        Sysfs(arguments.sysroot),
        sys.stdout,
    )


def smt(arguments: argparse.Namespace) -> None:
    """Do what `smt` was asked for; ToolError on everything but success."""
    level = parse_one(name_of(SMT, arguments.level))
    settings = SmtSettings(
        operation=SmtLevel(level.argument),
        expedite=arguments.expedite,
        tune_fqs=arguments.tune_fqs,
        dry_run=arguments.dry_run,
        as_json=arguments.json,
        timeout_s=level.timeout_s or arguments.timeout,
        via=arguments.via,
    )
    with contextlib.closing(StopRequest()) as stop:
        SmtSwitch(settings, Sysfs(arguments.sysroot), stop, sys.stderr).execute()


def run(arguments: argparse.Namespace) -> None:
    """Do what `run` was asked for; ToolError on everything but success."""
    settings = Settings(
        operations=parse_operations(arguments.operations),
        variant=arguments.variant,
        iterations=arguments.iterations,
        count_iterations=arguments.count_iterations,
        warmup=arguments.warmup,
        settle_s=arguments.settle,
        timeout_s=arguments.timeout,
        via=arguments.via,
        boot_method=arguments.boot_method,
        emulated=arguments.emulated,
        output=arguments.output,
        resume=arguments.resume,
        prepare=parse_hook("--prepare", arguments.prepare),
        cleanup=parse_hook("--cleanup", arguments.cleanup),
        traces=tuple(dict.fromkeys(arguments.trace)),
        trace_buffer_kb=arguments.trace_buffer,
    )
    with contextlib.closing(StopRequest()) as stop:
        Runner(settings, Sysfs(arguments.sysroot), stop).execute()


def costs(arguments: argparse.Namespace) -> None:
    """Do what `measure-costs` was asked for; ToolError on everything but success."""
    settings = CostSettings(
        cpus=frozenset(arguments.cpus) if arguments.cpus else None,
        variant=arguments.variant,
        settle_s=arguments.settle,
        timeout_s=arguments.timeout,
        boot_method=arguments.boot_method,
        emulated=arguments.emulated,
        output=arguments.output,
    )
    with contextlib.closing(StopRequest()) as stop:
        measure_costs(settings, Sysfs(arguments.sysroot), stop)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the travelling copy's command line; returns the exit code."""
    parser = Parser(prog=PROGRAM, description="Switches SMT and CPUs on this host, and times it.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    add_target_commands(add_commands(parser))
    return run_command(parser, argv)


def add_target_commands(commands: Commands) -> None:
    """Add the commands that run on the measured host."""
    for name, summary, description, epilog, add_arguments, handler in (
        ("run", RUN_SUMMARY, RUN_DESCRIPTION, RUN_EPILOG, add_run_arguments, run),
        ("measure-costs", COSTS_SUMMARY, COSTS_DESCRIPTION, COSTS_EPILOG, add_costs_arguments, costs),
        ("smt", SMT_SUMMARY, SMT_DESCRIPTION, SMT_EPILOG, add_smt_arguments, smt),
        (
            "preflight",
            PREFLIGHT_SUMMARY,
            PREFLIGHT_DESCRIPTION,
            PREFLIGHT_EPILOG,
            add_preflight_arguments,
            look,
        ),
    ):
        parser = add_subcommand(commands, name, summary=summary, description=description, examples=epilog)
        add_arguments(parser)
        parser.set_defaults(handler=handler)
