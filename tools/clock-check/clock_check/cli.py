"""The controller's command line: all that runs on measured hosts, bundle, and the table of many hosts."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from clock_check import build, hosts
from clock_check.bundle import build_bundle
from hotplug_common import arch, bundle
from hotplug_common.tables import print_tables
from hotplug_host import __version__
from hotplug_host.clocks import command, probe
from hotplug_host.clocks.probe import Probe
from hotplug_host.clocks.session import PROGRAM
from hotplug_host.entry import Parser
from hotplug_host.signals import StopRequest
from hotplug_host.subcommands import add_commands, add_subcommand, run_command

EPILOG = """\
examples:
  clock-check scale --clocksource all
  clock-check order --calls 100000000
  clock-check drift --reference /dev/ptp0 --seconds 60
  clock-check audit
  clock-check bundle ppc64le -o clock-check.pyz
"""
BUNDLE_DESCRIPTION = """\
Pack all but this command and hosts into one Python file for one kind of machine, with the compiled loops
inside. A measured host needs Python 3.9 or later and nothing else.
"""
BUNDLE_EPILOG = """\
examples:
  clock-check bundle ppc64le -o clock-check.pyz
  scp clock-check.pyz lpar: && ssh lpar python3 clock-check.pyz scale --variant stock --output scale.jsonl
"""
HOSTS_DESCRIPTION = """\
Set the audits of many hosts side by side, a row per host: what each uses, what it should use, and why.
"""
HOSTS_EPILOG = """\
examples:
  ssh lpar1 python3 clock-check.pyz audit --json > lpar1.json
  ssh lpar2 python3 clock-check.pyz audit --json > lpar2.json
  clock-check hosts lpar1.json lpar2.json

The playbook clocks.yml does all of this for an inventory.
"""


def build_parser() -> Parser:
    """Return the whole command line."""
    parser = Parser(
        prog=PROGRAM,
        description=command.DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = add_commands(parser)
    command.add_target_commands(commands, _native_probe)
    pack = add_subcommand(
        commands,
        "bundle",
        summary="pack what runs on measured hosts into one file",
        description=BUNDLE_DESCRIPTION,
        examples=BUNDLE_EPILOG,
    )
    pack.add_argument("machine", choices=sorted(arch.ARCHES), help="the host's machine, as in uname -m")
    pack.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("clock-check.pyz"),
        metavar="FILE",
        help="(default: %(default)s)",
    )
    pack.set_defaults(handler=_bundle)
    table = add_subcommand(
        commands,
        "hosts",
        summary="table of many hosts' audits",
        description=HOSTS_DESCRIPTION,
        examples=HOSTS_EPILOG,
    )
    table.add_argument(
        "audits", nargs="+", type=Path, metavar="FILE", help="what audit --json printed; named after its host"
    )
    table.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help=f"write {hosts.NAME}.md and {hosts.NAME}.json there, and print their paths",
    )
    table.set_defaults(handler=_hosts)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return run_command(build_parser(), argv)


def cache_directory() -> Path:
    """Return where compiled probes are kept."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / PROGRAM


def _native_probe(stop: StopRequest) -> contextlib.AbstractContextManager[Probe]:
    program = build.cached_probe(arch.by_name(platform.machine()), cache_directory())
    return contextlib.nullcontext(probe.named(program, stop))


def _bundle(arguments: argparse.Namespace) -> None:
    program = build.cached_probe(arch.by_name(arguments.machine), cache_directory())
    bundle.write(arguments.output, build_bundle(program.read_bytes()))
    sys.stdout.write(f"{arguments.output}\n")


def _hosts(arguments: argparse.Namespace) -> None:
    audits = hosts.read_audits(arguments.audits)
    if arguments.output_dir is None:
        print_tables(hosts.sheet(audits), "markdown", sys.stdout)
        return
    for path in hosts.write_table(audits, arguments.output_dir):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    sys.exit(main())
