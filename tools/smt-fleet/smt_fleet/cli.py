"""The command line: each command is a playbook, run with its plan and its state kept in a folder."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotplug_common import lock
from hotplug_common.files import write_files
from hotplug_common.tables import add_format, print_tables, to_json
from hotplug_host import __version__, termination
from hotplug_host.arguments import count, even, positive
from hotplug_host.entry import Parser
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.preflight.judge import PURPOSES, SWITCH
from hotplug_host.subcommands import add_commands, add_subcommand, run_command
from smt_fleet import batches, forecast, inventory, notice, planned, playbooks, runs, summary
from smt_fleet.costs import BOOT_MIN, Forecast, Job
from smt_fleet.outcome import Outcome, Verdict, outcome
from smt_fleet.planned import Planned
from smt_fleet.runs import Plan

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

PROGRAM = "smt-fleet"
#: Minutes of off and on together from which one iteration a boot is enough: boots tell more than iterations.
LONG_MIN = 20
#: Seconds between two looks for a host that was left changed, while a run goes on that a web hook hears of.
LOOK_S = 10.0
#: The variable with the folder of costs.
COSTS = "fleet_costs_dir"
#: Iterations of each kernel's first boot that are counted beside the timed ones.
COUNTED = 1
#: Iterations of each boot that are timed.
ITERATIONS = 3
TIME = re.compile(r"(?:(?P<day>\d{4}-\d{2}-\d{2})T)?(?P<time>\d{2}:\d{2})")
MORE = "arguments of ansible-playbook"
RUN = "name of the run, or last; or the path of its folder"
EPILOG = """\
examples:
  smt-fleet check -i inventory/mine --for switch
  smt-fleet plan apply -i inventory/mine --level off --minutes 10 --until 04:30
  smt-fleet plan apply -i inventory/mine --level off --costs costs --until 04:30
  smt-fleet apply -i inventory/mine --level off --minutes 10 --until 04:30
  smt-fleet ab -i inventory/mine --variant stock=S/artifact.json --variant patched=P/artifact.json
  smt-fleet status last
  smt-fleet resume last
  smt-fleet rollback last

what follows -- goes to ansible-playbook, as in smt-fleet check -i inventory/mine -- --ask-vault-pass

exit codes of a run, by its worst host:
  0 all are as asked; 3 some are unfit, and nothing was changed there; 5 some failed and are as before;
  6 some are left changed, or a rollback did not reach them; 7 some are left for later
"""
APPLY_EXAMPLES = """\
examples:
  smt-fleet apply -i inventory/mine --level off
  smt-fleet apply -i inventory/mine --level off --batches 1,10% --soak 15 --confirm prompt
  smt-fleet apply -i inventory/mine --level on --until 04:30 --minutes 70 -- --ask-vault-pass
"""
AB_EXAMPLES = """\
examples:
  smt-fleet ab -i inventory/mine --variant stock=S/artifact.json --variant patched=P/artifact.json
  smt-fleet plan ab -i inventory/mine --variant stock=S/artifact.json --variant patched=P/artifact.json \\
      --switch-minutes 110
"""
REGRESS_EXAMPLES = """\
examples:
  smt-fleet regress -i inventory/mine --stock S/artifact.json --patched P/artifact.json --dir /srv/regress
  smt-fleet regress -i inventory/mine --build 6.12 --dir /srv/regress
"""
DEPLOY_EXAMPLES = """\
examples:
  smt-fleet deploy -i inventory/mine --kernel /srv/kernels/R/artifact.json --minutes 60 --until 04:30
  smt-fleet deploy -i inventory/mine --kernel /srv/kernels/R/artifact.json --boot once
"""
RUN_EXAMPLES = """\
examples:
  smt-fleet {name} last
  smt-fleet {name} 20261126T020000Z-apply --output-dir /srv/smt-fleet
"""


class _Program(Parser):
    """Leaves what follows `--` to ansible-playbook: argparse would take its first word for one of ours."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words before `--`, and keep the others for a command that runs a playbook."""
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)
        found, unknown = super().parse_known_args(words[:end], namespace)
        if more := words[end + 1 :]:
            if not hasattr(found, "arguments"):
                self.error(f"{found.command} takes no {MORE}")
            found.arguments = more
        return found, unknown


def build_parser() -> Parser:
    """Return the whole command line."""
    parser = _Program(
        prog=PROGRAM,
        description="Change many hosts: a few first, then the others, with a row for each host at the end.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = add_commands(parser)
    check = _starting(commands, "check", "whether hosts are fit; changes nothing", EPILOG, check_plan)
    check.add_argument(
        "--for",
        dest="purpose",
        choices=PURPOSES,
        default=SWITCH,
        help="what is planned (default: %(default)s)",
    )
    _add_costs(check)
    apply = _starting(commands, "apply", "switch SMT on all hosts", APPLY_EXAMPLES, apply_plan)
    deploy = _starting(commands, "deploy", "leave all hosts on another kernel", DEPLOY_EXAMPLES, deploy_plan)
    compare = _starting(commands, "ab", "measure kernels against each other on hosts", AB_EXAMPLES, ab_plan)
    nightly = _starting(commands, "regress", "measure for a history", REGRESS_EXAMPLES, regress_plan)
    back = add_subcommand(
        commands,
        "rollback",
        summary="bring hosts back",
        description="Bring back the hosts that a run changed, or without a run all of an inventory.",
        examples=RUN_EXAMPLES.format(name="rollback"),
    )
    back.add_argument("run", nargs="?", default="", metavar="RUN", help=RUN)
    _add_hosts(back)
    back.set_defaults(handler=rollback)
    plan = commands.add_parser("plan", help="print batches and their times; asks no host", epilog=EPILOG)
    plan.formatter_class = argparse.RawDescriptionHelpFormatter
    planned = plan.add_subparsers(dest="what", required=True, metavar="COMMAND", parser_class=Parser)
    for parent, name, add, make, sizes in (
        (apply, "apply", _add_apply, apply_plan, batches.DEFAULT),
        (deploy, "deploy", _add_deploy, deploy_plan, batches.DEFAULT),
        (compare, "ab", _add_ab, ab_plan, batches.ALONE),
        (nightly, "regress", _add_regress, regress_plan, batches.ALONE),
    ):
        twin = planned.add_parser(name, help=f"of {name}")
        _add_hosts(twin)
        for one in (parent, twin):
            add(one)
            _add_flow(one, ",".join(sizes))
        twin.set_defaults(handler=print_plan, make=make)
        add_format(twin)
    for name, what, handler in (
        ("resume", "go on with the hosts of a run that are not as asked", resume),
        ("status", "print a run's hosts, also while it runs", report),
        ("report", "write a run's summary again, and print it", report),
    ):
        command = add_subcommand(
            commands,
            name,
            summary=what,
            description=f"{what[0].upper()}{what[1:]}.",
            examples=RUN_EXAMPLES.format(name=name),
        )
        command.add_argument("run", metavar="RUN", help=RUN)
        _add_output(command)
        command.set_defaults(handler=handler)
        if name != "resume":
            add_format(command)
    return parser


def _starting(commands: Commands, name: str, what: str, examples: str, plan: Any) -> argparse.ArgumentParser:
    """Add a command that starts a run."""
    command = add_subcommand(
        commands, name, summary=what, description=f"{what[0].upper()}{what[1:]}.", examples=examples
    )
    _add_hosts(command)
    command.set_defaults(handler=lambda arguments: start(arguments, _forethought(arguments, plan(arguments))))
    return command


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("smt-fleet"),
        metavar="DIR",
        help="folder of the runs (default: %(default)s)",
    )


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    _add_output(parser)
    parser.add_argument(
        "-i", "--inventory", action="append", default=[], help="of Ansible; may be given again"
    )
    parser.add_argument(
        "--limit", default="", metavar="PATTERN", help="only these hosts of the group smt_hosts"
    )
    parser.add_argument(
        "-e", dest="extra", action="append", default=[], metavar="NAME=VALUE", help="a variable"
    )
    parser.add_argument(
        "--notify",
        default="",
        metavar="URL",
        help="web hook that gets summary.json (POST) at the end, and when a host is left changed",
    )
    parser.set_defaults(arguments=[])


def _add_costs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--costs",
        type=Path,
        metavar="DIR",
        help="results of hotplug-timer measure-costs, of each host HOST.jsonl: what they predict takes the"
        " place of --minutes",
    )


def _add_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--level", required=True, help="on, off, or a number of threads per core")
    parser.add_argument(
        "--persist",
        choices=("none", "unit", "smtstate"),
        default="none",
        help="what makes the level hold after a reboot: a unit of ours, or powerpc-utils' smtstate.service"
        " (default: %(default)s)",
    )
    _add_costs(parser)


def _add_deploy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kernel", required=True, type=Path, metavar="FILE", help="its artifact.json")
    parser.add_argument(
        "--boot", choices=("kexec", "once", "default"), default="kexec", help="(default: %(default)s)"
    )
    _add_costs(parser)


def _add_ab(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--variant",
        dest="variants",
        action="append",
        required=True,
        metavar="NAME=KERNEL",
        help="a kernel: its artifact.json, `running`, or `installed:RELEASE` for one that the hosts have"
        " installed; given twice or more, first the one to compare with",
    )
    parser.add_argument(
        "--boots",
        type=even,
        default=4,
        metavar="N",
        help="of each kernel, forth and back (default: %(default)s)",
    )
    parser.add_argument(
        "--iterations",
        type=positive,
        metavar="N",
        help=f"of off and on in each boot (default: {ITERATIONS}, or 1 with --switch-minutes of {LONG_MIN}"
        " and more)",
    )
    parser.add_argument(
        "--switch-minutes",
        type=count,
        default=0,
        metavar="N",
        help="that off and on take together on the first kernel: prints how long the run takes, and sets"
        " --minutes",
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="folder of the results (default: that of the run)"
    )
    _add_costs(parser)


def _add_regress(parser: argparse.ArgumentParser) -> None:
    for name in ("stock", "patched"):
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"artifact.json of the {name} kernel"
        )
    parser.add_argument(
        "--build",
        default="",
        metavar="LINE",
        help="build both kernels of this line first, and time what is new of them",
    )
    parser.add_argument("--dir", required=True, type=Path, help="folder of the history")
    parser.add_argument(
        "--iterations",
        type=positive,
        metavar="N",
        help=f"of off and on in each boot (default: ab_iterations of the inventory, or {ITERATIONS})",
    )
    _add_costs(parser)


def _add_flow(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--batches", default=default, metavar="SIZES", help="hosts at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--max-failed",
        type=count,
        default=0,
        metavar="PERCENT",
        help="of a batch, above which the run ends (default: %(default)s)",
    )
    parser.add_argument(
        "--soak",
        type=count,
        default=0,
        metavar="MINUTES",
        help="to wait after the first batch (default: %(default)s)",
    )
    parser.add_argument(
        "--confirm",
        choices=("auto", "prompt"),
        default="auto",
        help="who decides that the others follow (default: %(default)s)",
    )
    parser.add_argument(
        "--until",
        default="",
        metavar="TIME",
        help="HH:MM or YYYY-MM-DDTHH:MM: no host begins that could not be ready by then; needs the minutes of"
        " a host",
    )
    parser.add_argument(
        "--minutes",
        type=count,
        default=0,
        metavar="N",
        help="that a host takes at the most (default: %(default)s)",
    )


def check_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of `check`."""
    return _plan(
        arguments, "check", "preflight.yml", {"preflight_purpose": arguments.purpose} | _costs(arguments)
    )


def apply_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of `apply`."""
    words = {
        "smt_switch_level": arguments.level,
        "smt_switch_persist": arguments.persist,
        "smt_switch_max_fail_percentage": arguments.max_failed,
    }
    return _plan(arguments, "apply", "apply.yml", words | _costs(arguments) | _flow(arguments))


def deploy_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of `deploy`."""
    words = {
        "deploy_artifact": _artifact(arguments.kernel),
        "boot": arguments.boot,
        "deploy_max_fail_percentage": arguments.max_failed,
    }
    return _plan(arguments, "deploy", "deploy.yml", words | _costs(arguments) | _flow(arguments))


def ab_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of `ab`."""
    pairs = [text.partition("=") for text in arguments.variants]
    if wrong := [name for name, _, file in pairs if not (name and file)]:
        raise ToolError(f"'{wrong[0]}' is no variant", "give NAME=KERNEL", ExitCode.USAGE)
    if len({name for name, _, _ in pairs}) < max(2, len(pairs)):
        raise ToolError(
            "too few variants, or one name twice", "give --variant NAME=KERNEL for each", ExitCode.USAGE
        )
    iterations = arguments.iterations or (1 if arguments.switch_minutes >= LONG_MIN else ITERATIONS)
    if arguments.switch_minutes:
        least, most = ab_minutes(len(pairs), arguments.boots, iterations, arguments.switch_minutes)
        arguments.minutes = arguments.minutes or most
        sys.stderr.write(
            f"{PROGRAM}: {arguments.boots} boots of each kernel, {iterations} of off and on in each:"
            f" {least / 60:.1f} hours a host if {pairs[0][0]} alone is slow, {most / 60:.1f} at the most\n"
        )
    words = {
        "ab_variants": [{"name": name, **_kernel(kernel)} for name, _, kernel in pairs],
        "ab_iterations": iterations,
        "ab_repeat": arguments.boots // 2,
        "ab_max_fail_percentage": arguments.max_failed,
    }
    # Without one, carry_out takes the run's own folder, which is not made yet.
    where = {"ab_results_dir": str(arguments.results.resolve())} if arguments.results else {}
    return _plan(arguments, "ab", "ab.yml", words | where | _costs(arguments) | _flow(arguments))


def ab_minutes(variants: int, boots: int, iterations: int, switch_minutes: int) -> tuple[int, int]:
    """Return the minutes that an A/B run takes on a host: if the first kernel alone is slow, and if all are.

    SWITCH_MINUTES are those of off and on together.
    """
    booting = (variants * boots + 1) * BOOT_MIN
    slow = boots * iterations * switch_minutes
    return booting + slow, booting + variants * slow


def regress_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of `regress`."""
    given = {name: file for name in ("stock", "patched") if (file := getattr(arguments, name))}
    if len(given) != (0 if arguments.build else 2):
        raise ToolError("no kernels, or too many", "give --stock and --patched, or --build", ExitCode.USAGE)
    words = {
        "regress_artifacts": {name: _artifact(file) for name, file in given.items()},
        "regress_build": arguments.build,
        "regress_dir": str(arguments.dir.resolve()),
        # Kept, as a resumed run may go on past midnight.
        "regress_run": f"{datetime.now(UTC):%Y-%m-%d}",
        "regress_max_fail_percentage": arguments.max_failed,
    }
    if arguments.iterations:
        words |= {"ab_iterations": arguments.iterations}
    return _plan(arguments, "regress", "regress.yml", words | _costs(arguments) | _flow(arguments))


def _kernel(text: str) -> dict[str, str]:
    """Return how ab.yml names a kernel; ToolError (INPUT) where there is no such artefact."""
    kind, _, release = text.partition(":")
    if text == "running" or (kind == "installed" and release):
        return {"release": release or text}
    return {"artifact": _artifact(Path(text))}


def _artifact(file: Path) -> str:
    """Return the absolute path of a kernel's artifact.json; ToolError (INPUT) where there is none."""
    if not file.is_file():
        raise ToolError(f"there is no {file}", "name the artifact.json of a build", ExitCode.INPUT)
    return str(file.resolve())


def _costs(arguments: argparse.Namespace) -> dict[str, str]:
    """Return where the costs of hosts are, where that was told; ToolError (INPUT) for no folder."""
    if arguments.costs is None:
        return {}
    return {COSTS: str(forecast.check_folder(arguments.costs).resolve())}


def _flow(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.until and not (arguments.minutes or getattr(arguments, "costs", None)):
        steps = "--minutes N, or --costs DIR" if hasattr(arguments, "costs") else "--minutes N"
        raise ToolError("--until needs to know how long a host takes", f"give {steps}", ExitCode.USAGE)
    return {
        "fleet_batches": batches.parse(arguments.batches),
        "fleet_soak_minutes": arguments.soak,
        "fleet_confirm": arguments.confirm,
        "fleet_window_end": window_end(arguments.until, datetime.now()),
        "fleet_host_minutes": arguments.minutes,
    }


def window_end(text: str, now: datetime) -> str:
    """Return a time of the day as the next such time after NOW; ToolError (USAGE) where it is none."""
    if not text:
        return ""
    found = TIME.fullmatch(text)
    try:
        if not found:
            raise ValueError
        end = datetime.fromisoformat(f"{found['day'] or now.date()}T{found['time']}")
    except ValueError:
        raise ToolError(f"'{text}' is no time", "give HH:MM or YYYY-MM-DDTHH:MM", ExitCode.USAGE) from None
    if not found["day"] and end <= now:
        end += timedelta(days=1)
    return end.isoformat(timespec="minutes")


def _plan(arguments: argparse.Namespace, command: str, playbook: str, variables: Mapping[str, Any]) -> Plan:
    inventories = [str(Path(name).resolve()) for name in arguments.inventory]
    if not inventories:
        raise ToolError("no inventory given", "name yours with -i", ExitCode.USAGE)
    for path in inventories:
        if not Path(path).exists():
            raise ToolError(f"there is no inventory {path}", "name yours with -i", ExitCode.INPUT)
    notice.check(arguments.notify)
    return Plan(
        command,
        playbook,
        inventories,
        dict(variables),
        arguments.limit,
        _more(arguments),
        arguments.notify,
    )


def _more(arguments: argparse.Namespace) -> list[str]:
    """Return what ansible-playbook gets beside the plan."""
    return [word for pair in arguments.extra for word in ("-e", pair)] + list(arguments.arguments)


def start(arguments: argparse.Namespace, plan: Plan) -> int:
    """Run a plan in a folder of its own; returns the exit code of its worst host."""
    where = playbooks.find()
    folder = runs.new_folder(arguments.output_dir, plan.command)
    runs.write_plan(folder, plan)
    sys.stderr.write(f"{PROGRAM}: run {folder.name}; its state is in {folder}\n")
    return carry_out(folder, plan, where)


def carry_out(folder: Path, plan: Plan, where: Path, pending: Sequence[str] = ()) -> int:
    """Run the playbook of a plan, write the summary, print it, and return its exit code.

    The playbooks are in WHERE. PENDING are the hosts of a run that goes on.
    """
    variables = {**plan.variables, **({"smt_switch_resume": True} if pending else {})}
    limit = ",".join(pending) or plan.limit
    if plan.command == "check":
        variables["preflight_output_dir"] = str(folder.resolve())
    elif plan.command == "ab":
        variables.setdefault("ab_results_dir", str(folder.resolve()))
    given = folder / "variables.json"
    given.write_text(runs.to_json(variables), "utf-8")
    command = [
        playbooks.program("ansible-playbook"),
        *(word for path in plan.inventories for word in ("-i", path)),
        str(where / "playbooks" / plan.playbook),
        "-e",
        f"@{given.resolve()}",
        *(("--limit", limit) if limit else ()),
        *plan.arguments,
    ]
    environment = {
        **playbooks.environment(where),
        "SMT_FLEET_RUN": str(folder.resolve()),
        # Into a pipe, the progress of a switch would come when it is over.
        "PYTHONUNBUFFERED": "1",
    }
    with lock.held_if_free(folder / runs.LOCK) as free:
        if not free:
            raise ToolError(
                f"the run {folder.name} is at work",
                f"see {PROGRAM} status {folder.name}",
                ExitCode.ENVIRONMENT,
            )
        runs.drop_cut_line(folder)
        if pending:
            runs.note(folder, "resumed", hosts=list(pending))
        look = (lambda: _alarmed(folder, plan)) if plan.notify else None
        code, found = _played(command, environment, lambda: _ended(folder, plan), look)
    if not found.hosts:
        raise ToolError("the run came to no host", "see what Ansible printed above", ExitCode.INPUT)
    # What no host explains is Ansible's own, such as an error in a variable.
    return found.code or (ExitCode.OPERATION if code else ExitCode.OK)


def _played(
    command: Sequence[str],
    environment: Mapping[str, str],
    write: Callable[[], Outcome],
    look: Callable[[], bool] | None,
) -> tuple[int, Outcome]:
    """Run a playbook to its end and write what it came to, whatever signals come; return both.

    LOOK is called now and then, until it has seen what it looks for.
    Ansible has a terminal's Ctrl-C by itself, and puts hosts back before it ends.
    """
    started: list[subprocess.Popen[bytes]] = []

    def tell(number: int) -> None:
        if number != signal.SIGINT:
            for process in started:
                process.send_signal(signal.SIGINT)

    with termination.held_back(tell):
        started.append(subprocess.Popen(command, env=environment))
        while look:
            try:
                started[0].wait(LOOK_S)
                break
            except subprocess.TimeoutExpired:
                look = None if look() else look
        code = started[0].wait()
        return code, write()


def _alarmed(folder: Path, plan: Plan) -> bool:
    """Tell the web hook of the first host that was left changed; return whether there is one."""
    # A state that cannot be read is told of when the playbook has ended, not while it holds hosts.
    with contextlib.suppress(ToolError):
        found = outcome(runs.events(folder), undoes=plan.undoes, over=False)
        if found.named(Verdict.LEFT_CHANGED):
            _tell(plan, to_json(summary.sheet(folder.name, found)))
            return True
    return False


def _tell(plan: Plan, text: str) -> None:
    if problem := notice.post(plan.notify, text):
        sys.stderr.write(f"{PROGRAM}: warning: {problem}\n")


def _write(folder: Path, found: Outcome) -> Outcome:
    """Write the summary of a run."""
    write_files(folder, summary.files(folder.name, found), "summary")
    return found


def _ended(folder: Path, plan: Plan) -> Outcome:
    """Write and print the summary of a run whose playbook has ended."""
    found = _write(folder, outcome(runs.events(folder), undoes=plan.undoes, over=True))
    if found.hosts:
        print_tables(summary.sheet(folder.name, found), "table", sys.stdout)
    if plan.notify:
        _tell(plan, (folder / "summary.json").read_text("utf-8"))
    return found


def resume(arguments: argparse.Namespace) -> int:
    """Go on with what a run owes; its state goes on in the same folder."""
    folder = runs.find(arguments.output_dir, arguments.run)
    plan = runs.read_plan(folder)
    if plan.unled:
        raise ToolError(
            f"{PROGRAM} did not start {folder.name}, and lacks its variables",
            f"run {plan.playbook} again with --limit @{folder / 'failed.txt'}",
            ExitCode.INPUT,
        )
    pending = outcome(runs.events(folder), undoes=plan.undoes).pending
    if not pending:
        sys.stdout.write(f"{folder.name}: every host is as asked\n")
        return ExitCode.OK
    if plan.command == "ab":
        set_aside(Path(plan.variables.get("ab_results_dir", folder)), pending)
    sys.stderr.write(f"{PROGRAM}: going on with {len(pending)} hosts\n")
    return carry_out(folder, plan, playbooks.find(), pending)


def set_aside(results: Path, hosts: Sequence[str]) -> None:
    """Move what a run has measured of hosts that it begins anew: blocks of two boots would not compare."""
    aside = next(path for number in numbers(1) if not (path := results / f"aside-{number}").exists())
    for folder in [results / "raw" / name for name in hosts]:
        if folder.is_dir():
            aside.mkdir(exist_ok=True)
            folder.rename(aside / folder.name)
            sys.stderr.write(f"{PROGRAM}: what was measured of {folder.name} is in {aside} now\n")


def rollback(arguments: argparse.Namespace) -> int:
    """Bring hosts back: those that a run changed, or all of an inventory."""
    if not arguments.run:
        return start(arguments, _plan(arguments, "rollback", "rollback.yml", {}))
    if arguments.inventory or arguments.limit:
        raise ToolError("a run has its own hosts", "leave out -i and --limit, or the run", ExitCode.USAGE)
    notice.check(arguments.notify)
    folder = runs.find(arguments.output_dir, arguments.run)
    plan = runs.read_plan(folder)
    hosts = [host.name for host in outcome(runs.events(folder), undoes=False).hosts if host.touched]
    if not hosts:
        sys.stdout.write(f"{folder.name}: no host was changed\n")
        return ExitCode.OK
    back = Plan(
        "rollback",
        "rollback.yml",
        plan.inventories,
        {},
        ",".join(hosts),
        plan.arguments + _more(arguments),
        arguments.notify or plan.notify,
    )
    return start(arguments, back)


def report(arguments: argparse.Namespace) -> int:
    """Print what a run has come to so far; `report` writes the files as well."""
    folder = runs.find(arguments.output_dir, arguments.run)
    plan = runs.read_plan(folder)
    # One whose controller died has not noted its end.
    with lock.held_if_free(folder / runs.LOCK) as over:
        found = outcome(runs.events(folder), undoes=plan.undoes, over=over)
    if arguments.command == "report":
        _write(folder, found)
    print_tables(summary.sheet(folder.name, found), arguments.format, sys.stdout)
    return ExitCode.OK


def print_plan(arguments: argparse.Namespace) -> int:
    """Print the batches of a run that is not started."""
    found = _planned(arguments, arguments.make(arguments))
    print_tables(planned.sheet(found), arguments.format, sys.stdout)
    return ExitCode.TIMEOUT if found.late else ExitCode.OK


def _forethought(arguments: argparse.Namespace, plan: Plan) -> Plan:
    """Return a plan with its batches and their times, where it has some.

    An inventory that cannot be listed here, as its password is not known yet, is for the playbook to refuse.
    """
    if "fleet_batches" not in plan.variables:
        return plan
    try:
        found = _planned(arguments, plan)
    except ToolError:
        return plan
    begin = found.begin.astimezone(UTC).isoformat(timespec="seconds")
    return replace(plan, planned={"begin": begin, **json.loads(to_json(planned.sheet(found)))})


def _planned(arguments: argparse.Namespace, plan: Plan) -> Planned:
    """Return the batches of a run, and what the costs of its hosts predict."""
    hosts = inventory.hosts(plan.inventories, plan.limit)
    known: list[Forecast] = []
    if folder := plan.variables.get(COSTS):
        known = forecast.forecasts(Path(folder), hosts, _job(plan), forecast.last_seen(arguments.output_dir))
    own = planned.own_minutes(known)
    made = batches.batches(hosts, batches.parse(arguments.batches), arguments.minutes, arguments.soak, own)
    end = plan.variables["fleet_window_end"]
    return Planned(datetime.now(), made, end, arguments.minutes, known)


def _job(plan: Plan) -> Job:
    """Return what a planned run does on each host."""
    given, words = plan.variables, dict[str, Any](action=plan.command)
    if plan.command == "apply":
        words |= {"level": given["smt_switch_level"]}
    elif plan.command == "deploy":
        words |= {"artifacts": [given["deploy_artifact"]]}
    elif plan.command == "regress":
        # Which of them are known, and which were suspect last night, the run finds out.
        files = [given["regress_artifacts"].get(name, "") for name in ("stock", "stock", "patched")]
        words |= {
            "artifacts": files,
            "expedited": [False, True, False],
            "iterations": given.get("ab_iterations", ITERATIONS),
            "counted": COUNTED,
        }
    else:
        words |= {
            "artifacts": [variant.get("artifact", "") for variant in given["ab_variants"]],
            "repeat": given["ab_repeat"],
            "iterations": given["ab_iterations"],
            "counted": COUNTED,
        }
    return forecast.job_of(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and do what it asks for; returns the exit code."""
    return run_command(build_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
