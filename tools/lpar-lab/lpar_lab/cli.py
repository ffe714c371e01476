"""The `lpar-lab` command."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotplug_common import arch
from hotplug_common.arguments import line, variant
from hotplug_common.command import in_lab
from hotplug_common.guest import installed, qemu, rootfs, ssh
from hotplug_common.kernel import (
    artifact,
    build,
    commits,
    config,
    hostconfig,
    lines,
    packages,
    series,
    source,
)
from hotplug_common.kernel.artifact import Artifact
from hotplug_common.kernel.objects import Rates
from hotplug_common.paths import Paths
from hotplug_common.tables import add_format
from hotplug_common.ui import Say, out
from hotplug_host.arguments import count, even, pause, positive, seconds
from hotplug_host.entry import Parser
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_commands, run_command
from lpar_lab import checkapply, cores, demo, inventory, lifecycle, package, status

NO_BOOT_LOADER = "none"
BOOT_LOADERS = (NO_BOOT_LOADER, "grub")
STYLES: dict[str, type[installed.Style]] = {
    style.name: style for style in (installed.PowerVM, installed.Server)
}
EXIT_CODES = """exit codes:
  0 done; 1 a bug in this tool; 2 bad arguments; 3 the machine lacks something (tool, network, space, port);
  4 bad input (a patch does not apply, a configuration symbol was lost); 6 the guest panicked, oopsed or
  ended early; 7 time ran out; 130 interrupted; 143 terminated"""


def parser() -> Parser:
    """Build the command line."""
    top = Parser(
        prog="lpar-lab",
        description="A POWER10 (or x86-64) guest in QEMU that stands in for an LPAR: kernels, disks, guests.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = add_commands(top)
    _add_build_kernel(commands)
    _add_check_apply(commands)
    _add_package(commands)
    _add_build_rootfs(commands)
    _add_up(commands)
    _add_cores(commands)
    _add_reset(commands)
    _add_down(commands)
    _add_status(commands)
    _add_ssh(commands)
    _add_console(commands)
    _add_inventory(commands)
    _add_demo(commands)
    return top


def _add(commands: Any, name: str, summary: str, examples: str) -> Parser:
    added: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return added


def _arch_option(command: Parser) -> None:
    command.add_argument(
        "--arch",
        choices=sorted(arch.ARCHES),
        default=arch.PPC64LE.name,
        help="architecture of the guest (default: %(default)s)",
    )


def _line_option(command: Parser) -> None:
    command.add_argument(
        "--line", type=line, default=lines.DEFAULT, metavar="LINE", help="kernel line (default: %(default)s)"
    )


def _variant_option(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--variant",
        type=variant,
        default=series.STOCK,
        metavar="NAME",
        help=f"kernel variant: {', '.join(series.VARIANTS)}, or one of kernel-patches/{series.EXPERIMENTS}"
        " (default: %(default)s)",
    )


def _fragment_option(command: Parser) -> None:
    command.add_argument(
        "--fragment",
        action="append",
        default=[],
        metavar="NAME",
        help="one more config fragment of kernel-patches/configs, such as debug; may be repeated",
    )


def _topology_options(command: Parser) -> None:
    command.add_argument("--cores", type=positive, default=2, help="cores (default: %(default)s)")
    command.add_argument(
        "--threads", type=positive, help="threads per core (default: 8 on ppc64le, 2 on x86_64)"
    )
    command.add_argument(
        "--memory", type=positive, metavar="MB", help="memory in MiB (default: by CPU count)"
    )
    command.add_argument(
        "--accel",
        choices=qemu.ACCELERATORS,
        default="tcg",
        help="how the CPUs run: tcg emulates them (default: %(default)s)",
    )
    command.add_argument(
        "--timeout", type=seconds, metavar="S", help="seconds to wait for SSH (default: by CPU count)"
    )


def _add_build_kernel(commands: Any) -> None:
    command = _add(
        commands,
        "build-kernel",
        "build a kernel into the cache, or find it there",
        "  lpar-lab build-kernel --variant stock\n"
        "  lpar-lab build-kernel --line 6.12 --variant patched --print-artifact\n"
        "  lpar-lab build-kernel --arch x86_64 --variant patched --fragment debug\n"
        "  lpar-lab build-kernel --variant cpuidle-expedited\n"
        "  lpar-lab build-kernel --variant patched --commits /srv/linux v6.12.118..topic\n"
        "  lpar-lab build-kernel --config-from lpar17.example.com: --plan-only\n"
        "  lpar-lab build-kernel --config-from kernel-core.rpm --trim-to lpar17.example.com: --package rpm",
    )
    _arch_option(command)
    _line_option(command)
    _variant_option(command)
    _fragment_option(command)
    command.add_argument(
        "--jobs", type=positive, metavar="N", help="parallel compilations (default: all CPUs)"
    )
    command.add_argument(
        "--patches", type=count, metavar="N", help="only the first N patches of the series (default: all)"
    )
    command.add_argument(
        "--commits",
        nargs=2,
        metavar=("TREE", "OLD..NEW"),
        help="the commits of a git tree in place of the variant's patches; they have to apply to the source",
    )
    command.add_argument(
        "--print-artifact",
        action="store_true",
        help="print only the path of artifact.json on standard output",
    )
    command.add_argument(
        "--apply-only", action="store_true", help="only see whether the patches apply, and build nothing"
    )
    _host_options(command.add_argument_group("a kernel for hosts of yours, with modules"))
    command.set_defaults(handler=in_lab(_build_kernel))


def _host_options(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--config-from",
        metavar="SOURCE",
        help="take the configuration from a file, a deb or rpm, a folder with one unpacked, or a running host"
        " (HOST: or ssh://HOST)",
    )
    command.add_argument(
        "--trim-to",
        metavar="SOURCE",
        help="of the modules, build those that a host uses (HOST: or ssh://HOST) or a file lists (output of"
        " lsmod), and those that PowerVM, initial RAM disks and repairs need (default: all)",
    )
    command.add_argument(
        "--enable",
        action="append",
        default=[],
        metavar="SYMBOL=VALUE",
        help="set a symbol of the configuration, such as KEXEC_FILE=y; may be repeated",
    )
    command.add_argument(
        "--sign-key",
        metavar="FILE",
        help="sign modules with this key and certificate (PEM; default: a throw-away key)",
    )
    command.add_argument(
        "--package",
        action="append",
        default=[],
        choices=sorted(packages.FORMATS),
        help="also make packages by bindeb-pkg or binrpm-pkg; may be repeated",
    )
    command.add_argument(
        "--plan-only",
        action="store_true",
        help="only print what differs from the configuration, what it lacks, and what the build takes",
    )


def _add_check_apply(commands: Any) -> None:
    command = _add(
        commands,
        "check-apply",
        "try the patches on a vendor's source, and look for hotplug states that would hinder them",
        "  lpar-lab check-apply linux-6.12.0-55.el10\n"
        "  lpar-lab check-apply linux_6.12.118-1.dsc --config-from lpar17.example.com: --format json",
    )
    command.add_argument(
        "tree",
        type=Path,
        metavar="TREE",
        help="folder of a kernel source, a .dsc, or a folder with a source rpm unpacked",
    )
    _arch_option(command)
    command.add_argument(
        "--line", type=line, metavar="LINE", help="kernel line of the patches (default: the source's version)"
    )
    command.add_argument(
        "--variant",
        type=variant,
        default=series.PATCHED,
        metavar="NAME",
        help="whose patches (default: %(default)s)",
    )
    command.add_argument(
        "--config-from",
        metavar="SOURCE",
        help="list only the states that this configuration builds; as for build-kernel (default: all)",
    )
    add_format(command)
    command.set_defaults(handler=in_lab(_check_apply))


def _add_package(commands: Any) -> None:
    command = _add(
        commands,
        "package",
        "pack a built kernel, with its digests, into a folder that travels",
        "  lpar-lab package artifact.json --output-dir kernels/patched\n"
        "  lpar-lab package artifact.json --format rpm --output-dir kernels/patched",
    )
    command.add_argument(
        "artifact", type=Path, metavar="ARTIFACT_JSON", help="what build-kernel --print-artifact printed"
    )
    command.add_argument(
        "--format",
        choices=sorted(package.FORMATS),
        default="tar",
        help="kind of the package in the folder (default: %(default)s)",
    )
    command.add_argument(
        "--output-dir", type=Path, required=True, metavar="DIR", help="folder to be made; must not exist yet"
    )
    command.set_defaults(handler=in_lab(_package))


def _add_build_rootfs(commands: Any) -> None:
    command = _add(
        commands,
        "build-rootfs",
        "build the base disk for guests of an architecture, or find it in the cache",
        "  lpar-lab build-rootfs --arch ppc64le",
    )
    _arch_option(command)
    command.set_defaults(handler=in_lab(_build_rootfs))


def _add_up(commands: Any) -> None:
    command = _add(
        commands,
        "up",
        "start a guest and wait until it answers over SSH",
        "  lpar-lab up lab1\n"
        "  lpar-lab up lab1 --cores 8 --threads 8 --variant patched\n"
        "  lpar-lab up x1 --arch x86_64 --cores 4\n"
        "  lpar-lab up lab1 --kernel path/to/artifact.json --append 'crashkernel=512M@640M'\n"
        "  lpar-lab up lab1 --threads 1 --boot-loader grub\n"
        "  lpar-lab up lab1 --cores 2 --spare-cores 1\n"
        "  lpar-lab up lpar1 --like powervm\n"
        "  lpar-lab up pc1 --like server --cores 4\n"
        "  lpar-lab up metal1 --like powernv10 --variant patched",
    )
    command.add_argument("name", metavar="NAME", help="the guest's name")
    _arch_option(command)
    _line_option(command)
    _topology_options(command)
    kernel = command.add_mutually_exclusive_group()
    kernel.add_argument(
        "--kernel", type=Path, metavar="ARTIFACT_JSON", help="default kernel, as built before"
    )
    _variant_option(kernel)
    _fragment_option(command)
    command.add_argument(
        "--ssh-port", type=positive, metavar="PORT", help="port on 127.0.0.1 (default: a free one)"
    )
    command.add_argument(
        "--append", default="", metavar="WORDS", help="more words for the kernel's command line"
    )
    command.add_argument(
        "--boot-loader",
        choices=BOOT_LOADERS,
        default=NO_BOOT_LOADER,
        help="what starts the kernel: QEMU (none), or GRUB on a disk with /boot (default: %(default)s)",
    )
    command.add_argument(
        "--like",
        choices=qemu.LIKE,
        help="powervm: boot Debian's own kernel like a partition of PowerVM, by firmware, GRUB and an initial"
        " RAM disk, with root on XFS, LVM and virtual SCSI, and virtual Ethernet; server: the same like an"
        " x86-64 server, by UEFI, with SATA; powernv9, powernv10: boot the lab's kernel like a machine"
        " without a hypervisor, under OPAL, with 4 threads per core at most (default: like an LPAR, with the"
        " lab's kernel and virtio devices)",
    )
    command.add_argument(
        "--initrd",
        choices=installed.INITRDS,
        default=installed.INITRAMFS_TOOLS,
        help="with --like powervm and server: what makes the initial RAM disks of kernels there"
        " (default: %(default)s)",
    )
    command.add_argument(
        "--spare-cores",
        type=count,
        default=0,
        metavar="N",
        help="how often `lpar-lab cores add` can add a core; ppc64le only (default: %(default)s)",
    )
    command.set_defaults(handler=in_lab(_up))


def _add_cores(commands: Any) -> None:
    command = _add(
        commands,
        "cores",
        "add a core to a running POWER guest, or remove its last one, as DLPAR does",
        "  lpar-lab cores add lab1\n  lpar-lab cores remove lab1",
    )
    command.add_argument("action", choices=cores.ACTIONS, help="what is done with one core")
    command.add_argument("name", metavar="NAME", help="the guest's name")
    command.add_argument(
        "--timeout",
        type=seconds,
        default=cores.TIMEOUT_S,
        metavar="S",
        help="seconds to wait for the guest's kernel (default: %(default)g)",
    )
    command.set_defaults(handler=in_lab(_cores))


def _add_reset(commands: Any) -> None:
    command = _add(
        commands,
        "reset",
        "power-cycle a guest, as a management console would: it boots its default kernel from the same disk",
        "  lpar-lab reset lab1",
    )
    command.add_argument("name", metavar="NAME", help="the guest's name")
    command.set_defaults(handler=in_lab(_reset))


def _add_down(commands: Any) -> None:
    command = _add(
        commands,
        "down",
        "end guests and remove what they kept",
        "  lpar-lab down lab1\n  lpar-lab down --all",
    )
    command.add_argument("name", metavar="NAME", nargs="?", help="the guest's name")
    command.add_argument("--all", action="store_true", help="every guest")
    command.set_defaults(handler=in_lab(_down))


def _add_status(commands: Any) -> None:
    command = _add(
        commands,
        "status",
        "show the guests, and what their consoles show",
        "  lpar-lab status\n  lpar-lab status --json",
    )
    command.add_argument("--json", action="store_true", help="a JSON list on standard output")
    command.set_defaults(handler=in_lab(_status))


def _add_ssh(commands: Any) -> None:
    command = _add(
        commands,
        "ssh",
        "log in to a guest, or run a command there",
        "  lpar-lab ssh lab1\n  lpar-lab ssh lab1 -- ppc64_cpu --smt",
    )
    command.add_argument("name", metavar="NAME", help="the guest's name")
    command.add_argument("remote", metavar="CMD", nargs="*", help="command and arguments, after --")
    command.set_defaults(handler=in_lab(_ssh))


def _add_console(commands: Any) -> None:
    command = _add(
        commands,
        "console",
        "print what a guest wrote to its console",
        "  lpar-lab console lab1\n  lpar-lab console lab1 --follow",
    )
    command.add_argument("name", metavar="NAME", help="the guest's name")
    command.add_argument(
        "--follow", action="store_true", help="go on printing until the guest ends or Ctrl-C"
    )
    command.set_defaults(handler=in_lab(_console))


def _add_inventory(commands: Any) -> None:
    command = _add(
        commands,
        "inventory",
        "write the Ansible inventory of running guests and print its path",
        '  ansible -i "$(lpar-lab inventory)" smt_hosts -m ping',
    )
    command.set_defaults(handler=in_lab(_inventory))


def _add_demo(commands: Any) -> None:
    command = _add(
        commands,
        "demo",
        "build, boot, measure stock against patched, and report",
        "  lpar-lab demo\n  lpar-lab demo --cores 8 --iterations 10 --output-dir results/64-cpus",
    )
    _arch_option(command)
    _line_option(command)
    _topology_options(command)
    _fragment_option(command)
    command.add_argument(
        "--boots",
        type=even,
        default=4,
        help="of each kernel, forth and back (default: %(default)s)",
    )
    command.add_argument(
        "--iterations", type=positive, default=3, help="timed iterations in each boot (default: %(default)s)"
    )
    command.add_argument(
        "--settle",
        type=pause,
        default=1.0,
        metavar="S",
        help="seconds to wait after each timed switch; with fewer, the demo ends sooner and its seconds"
        " spread more (default: %(default)s)",
    )
    command.add_argument(
        "--output-dir",
        type=Path,
        default=Path("results/demo"),
        metavar="DIR",
        help="where the results go (default: %(default)s)",
    )
    command.set_defaults(handler=in_lab(_demo))


def _threads(arguments: argparse.Namespace) -> int:
    wanted: int | None = arguments.threads
    return wanted or max(qemu.threads(arch.by_name(arguments.arch), getattr(arguments, "like", None) or ""))


def _build_kernel(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    if arguments.apply_only:
        from_source = source.obtain(arguments.line, paths, say)
        patches = _patches(arguments, arguments.variant, paths)
        build.apply(from_source, patches, say)
        out(f"{len(patches)} patches apply to {arguments.line} ({from_source.kernel_version})")
        return ExitCode.OK
    request = _host_request(arguments)
    if request:
        return _build_for_host(request, arguments, paths, say)
    built = build_variant(arguments, arguments.variant, paths, say)
    return _print_built(built, arguments)


def _print_built(built: Artifact, arguments: argparse.Namespace) -> int:
    out(str(built.file) if arguments.print_artifact else f"{built.release}  {built.image}")
    return ExitCode.OK


def _host_request(arguments: argparse.Namespace) -> hostconfig.Request | None:
    """Return what is asked for a host's kernel; None for one of the lab."""
    if arguments.config_from:
        return hostconfig.Request(
            arguments.config_from,
            arguments.trim_to or "",
            tuple(arguments.enable),
            arguments.sign_key or "",
            tuple(arguments.fragment),
        )
    alone = ("trim_to", "enable", "sign_key", "package", "plan_only")
    given = [f"--{name.replace('_', '-')}" for name in alone if getattr(arguments, name)]
    if given:
        raise ToolError(
            f"{given[0]} is for a kernel with a host's configuration", "add --config-from", ExitCode.USAGE
        )
    return None


def _build_for_host(
    request: hostconfig.Request, arguments: argparse.Namespace, paths: Paths, say: Say
) -> int:
    wanted = arch.by_name(arguments.arch)
    asked = hostconfig.read(request, wanted, arguments.line, paths, say)
    from_source = source.obtain(arguments.line, paths, say)
    patches = _patches(arguments, arguments.variant, paths)
    job = hostconfig.plan(
        asked, wanted, from_source, arguments.variant, paths=paths, say=say, patches=patches
    )
    for said in hostconfig.report(job, Rates.load(paths.cache), arguments.jobs or os.cpu_count() or 1):
        say(said)
    if arguments.plan_only:
        out(job.release)
        return ExitCode.OK
    return _print_built(build.build(job, paths, say, arguments.jobs, arguments.package), arguments)


def build_variant(arguments: argparse.Namespace, variant: str, paths: Paths, say: Say) -> Artifact:
    """Build (or find) one variant with the architecture, line and fragments the arguments name."""
    wanted = arch.by_name(arguments.arch)
    from_source = source.obtain(arguments.line, paths, say)
    patches = _patches(arguments, variant, paths)
    job = build.plan(wanted, from_source, variant, arguments.fragment, paths, patches=patches)
    return build.build(job, paths, say, getattr(arguments, "jobs", None))


def _patches(arguments: argparse.Namespace, variant: str, paths: Paths) -> list[series.Patch]:
    """Return the patches that the arguments name: a variant's, or commits in their place; or the first."""
    tree, span = getattr(arguments, "commits", None) or ("", "")
    if span and variant == series.STOCK:
        raise ToolError(
            "stock has no patches, so commits cannot take their place",
            "add --variant patched",
            ExitCode.USAGE,
        )
    found = commits.read(Path(tree), span) if span else series.load(paths.patches, arguments.line, variant)
    return series.first(found, getattr(arguments, "patches", None))


def _check_apply(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    request = checkapply.Request(
        arguments.tree,
        arch.by_name(arguments.arch),
        arguments.line,
        arguments.variant,
        arguments.config_from,
    )
    return checkapply.run(request, arguments.format, paths, say)


def _package(arguments: argparse.Namespace, _paths: Paths, say: Say) -> int:
    kernel = artifact.load(arguments.artifact)
    say(f"{kernel.release}: packing as {arguments.format}")
    out(str(package.pack(kernel, arguments.format, arguments.output_dir)))
    return ExitCode.OK


def _build_rootfs(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    out(str(rootfs.build(arch.by_name(arguments.arch), paths, say).image))
    return ExitCode.OK


def _up(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    if arguments.initrd != installed.INITRAMFS_TOOLS and arguments.like not in STYLES:
        raise ToolError(
            f"--initrd {arguments.initrd} is for guests that boot what is installed on their disk",
            f"add --like {' or '.join(STYLES)}",
            ExitCode.USAGE,
        )
    if arguments.like:
        _check_like(arguments)
        arguments.arch = qemu.LIKE[arguments.like].name
    request = lifecycle.Request(
        name=arguments.name,
        arch=arch.by_name(arguments.arch),
        cores=arguments.cores,
        threads=_threads(arguments),
        memory=arguments.memory,
        accel=arguments.accel,
        ssh_port=arguments.ssh_port,
        timeout=arguments.timeout,
        append=arguments.append,
        spare_cores=arguments.spare_cores,
        boot_loader=arguments.boot_loader != NO_BOOT_LOADER,
        like=arguments.like or "",
    )
    style = STYLES[arguments.like](arguments.initrd) if arguments.like in STYLES else rootfs.PLAIN
    lifecycle.check_request(request, rootfs.needs(request.arch, paths, style))
    lifecycle.refuse_if_running(request.name, paths)
    if arguments.ssh_port:
        ssh.choose_port(arguments.ssh_port)
    kernel = None if arguments.like in qemu.INSTALLED else _chosen_kernel(arguments, paths, say)
    disk = rootfs.build(request.arch, paths, say, style)
    lifecycle.up(request, kernel, disk, paths, say)
    return ExitCode.OK


def _check_like(arguments: argparse.Namespace) -> None:
    """Raise ToolError (USAGE) for options that such a guest cannot have."""
    wanted = qemu.LIKE[arguments.like].name
    others = {
        "--arch": arguments.arch not in (arch.PPC64LE.name, wanted),
        "--boot-loader": arguments.boot_loader != NO_BOOT_LOADER,
    }
    hint = f"such a guest is {wanted}, and OPAL starts its kernel"
    if arguments.like in qemu.INSTALLED:
        hint = "such a guest boots what is installed on its disk: install a package there"
        others |= {
            "--kernel": arguments.kernel,
            "--variant": arguments.variant != series.STOCK,
            "--fragment": arguments.fragment,
            "--append": arguments.append,
        }
    given = [option for option, value in others.items() if value]
    if given:
        raise ToolError(f"{given[0]} with --like {arguments.like}", hint, ExitCode.USAGE)


def _chosen_kernel(arguments: argparse.Namespace, paths: Paths, say: Say) -> Artifact:
    metal = arguments.like in qemu.POWERNV
    if arguments.kernel is None:
        if metal and config.POWERNV not in arguments.fragment:
            arguments.fragment = [config.POWERNV, *arguments.fragment]
        return build_variant(arguments, arguments.variant, paths, say)
    kernel = artifact.load(arguments.kernel)
    if metal and config.parse(kernel.config.read_text()).get("CONFIG_PPC_POWERNV") != "y":
        raise ToolError(
            f"{arguments.kernel} has no CONFIG_PPC_POWERNV, so it boots as an LPAR only",
            f"build it with --fragment {config.POWERNV}",
            ExitCode.INPUT,
        )
    if kernel.arch != arguments.arch:
        raise ToolError(
            f"{arguments.kernel} is a kernel for {kernel.arch}", f"use --arch {kernel.arch}", ExitCode.USAGE
        )
    return kernel


def _cores(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    cpus = cores.change(arguments.action, arguments.name, arguments.timeout, paths, say)
    say(f"guest '{arguments.name}': CPUs {cpus.present} are present, {cpus.online} online")
    return ExitCode.OK


def _reset(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    lifecycle.reset(arguments.name, paths)
    say(f"guest '{arguments.name}' is reset and boots")
    return ExitCode.OK


def _down(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    if bool(arguments.name) == arguments.all:
        raise ToolError("which guest?", "give a NAME, or --all", ExitCode.USAGE)
    names = lifecycle.folders(paths) if arguments.all else [arguments.name]
    for name in names:
        existed = lifecycle.down(name, paths, say)
        say(f"guest '{name}' is {'down' if existed else 'not there'}")
    return ExitCode.OK


def _status(arguments: argparse.Namespace, paths: Paths, _say: Say) -> int:
    reports = [status.describe(folder, guest) for folder, guest in lifecycle.known(paths)]
    out(json.dumps(reports, indent=2) if arguments.json else status.table(reports))
    return ExitCode.OK


def _ssh(arguments: argparse.Namespace, paths: Paths, _say: Say) -> int:
    folder, guest = lifecycle.require_running(arguments.name, paths)
    command = ssh.command(folder, guest.ssh_port, batch=False)
    if arguments.remote:
        command += ["--", *arguments.remote]
    os.execvp(command[0], command)  # noqa: S606 - never a shell, here as everywhere


def _console(arguments: argparse.Namespace, paths: Paths, _say: Say) -> int:
    folder, guest = lifecycle.require_running(arguments.name, paths)
    with (folder / qemu.CONSOLE_LOG).open("rb") as log, contextlib.suppress(KeyboardInterrupt):
        while True:
            alive = lifecycle.is_running(guest)
            sys.stdout.buffer.write(log.read())
            sys.stdout.buffer.flush()
            if not arguments.follow or not alive:
                break
            time.sleep(0.3)
    return ExitCode.OK


def _inventory(_arguments: argparse.Namespace, paths: Paths, _say: Say) -> int:
    out(str(inventory.refresh(paths)))
    return ExitCode.OK


def _demo(arguments: argparse.Namespace, paths: Paths, say: Say) -> int:
    return demo.run(
        demo.Settings(
            arch=arch.by_name(arguments.arch),
            line=arguments.line,
            cores=arguments.cores,
            threads=_threads(arguments),
            memory=arguments.memory,
            accel=arguments.accel,
            timeout=arguments.timeout,
            fragments=tuple(arguments.fragment),
            boots=arguments.boots,
            iterations=arguments.iterations,
            settle_s=arguments.settle,
            output=arguments.output_dir.absolute(),
        ),
        paths,
        say,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return run_command(parser(), argv)
