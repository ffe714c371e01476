"""Options that several subcommands share, and what they choose."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hotplug_common import arch
from hotplug_common.arguments import line, variant
from hotplug_common.guest import qemu
from hotplug_common.kernel import artifact, config, lines, series
from hotplug_common.paths import Paths
from hotplug_host.arguments import count, positive
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify.proving import Order

RESULTS = Path("results/qualify")
NO_FACTS = ("command", "handler", "resume", "output_dir")
"""Options that do not decide how a proof ends."""


def add_line(parser: argparse.ArgumentParser) -> None:
    """Add --line."""
    parser.add_argument(
        "--line", type=line, default=lines.DEFAULT, metavar="LINE", help="kernel line, default: %(default)s"
    )


def add_arch(parser: argparse.ArgumentParser) -> None:
    """Add --arch."""
    parser.add_argument(
        "--arch",
        choices=sorted(arch.ARCHES),
        default=arch.PPC64LE.name,
        help="architecture of the guest, default: %(default)s",
    )


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add --cores and --threads."""
    parser.add_argument("--cores", type=positive, default=2, help="cores of the guest, default: %(default)s")
    parser.add_argument(
        "--threads", type=positive, help="threads per core, default: 8 on ppc64le, 2 on x86_64"
    )


def add_like(parser: argparse.ArgumentParser) -> None:
    """Add --like."""
    parser.add_argument(
        "--like",
        choices=qemu.POWERNV,
        default="",
        help="guests like a machine without a hypervisor, under OPAL, with 4 threads per core at most"
        " (default: like an LPAR)",
    )


def add_variant(parser: argparse.ArgumentParser) -> None:
    """Add --variant and --kernel, of which one is given."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--variant",
        type=variant,
        default=series.PATCHED,
        metavar="NAME",
        help="kernel variant, default: %(default)s; stock shows which reports are the stock kernel's own",
    )
    which.add_argument(
        "--kernel", type=Path, metavar="ARTIFACT_JSON", help="a kernel that is built, instead of a variant"
    )


def add_fragments(parser: argparse.ArgumentParser) -> None:
    """Add --fragment."""
    parser.add_argument(
        "--fragment",
        type=fragment,
        action="append",
        default=[],
        metavar="NAME",
        help="one more config fragment of kernel-patches/configs, such as kasan; may be repeated",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add --config-from."""
    parser.add_argument(
        "--config-from",
        type=Path,
        metavar="FILE",
        help="a distribution's configuration in place of the lab's, as for lpar-lab build-kernel, with what a"
        " guest needs built in, and few modules",
    )


def add_guest(parser: argparse.ArgumentParser) -> None:
    """Add all options of order(): for a guest of any kind, in which one kernel is looked at."""
    for add in (add_line, add_arch, add_shape, add_like, add_variant, add_fragments):
        add(parser)


def add_boots(parser: argparse.ArgumentParser) -> None:
    """Add --boots."""
    parser.add_argument(
        "--boots", type=positive, default=5, metavar="N", help="boots of each kernel, default: %(default)s"
    )


def add_iterations(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add --iterations."""
    parser.add_argument("--iterations", type=count, default=15, metavar="N", help=help_text)


def add_keeping(parser: argparse.ArgumentParser) -> None:
    """Add --resume and --output-dir."""
    parser.add_argument(
        "--resume",
        action="store_true",
        help="pass over what has passed with the same patches, fragments, program and options",
    )
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="folder for logs, figures and what passed, default: %(default)s",
    )


def fragment(text: str) -> str:
    """Read the name of a config fragment; the files of kernel-patches/configs define which there are."""
    patches = Paths.from_environment().patches
    config.load(patches, arch.PPC64LE, lines.DEFAULT, [text])
    return text


def order(arguments: argparse.Namespace, **fixed: object) -> Order:
    """Return the guest that the options ask for; what has no option of its own is `fixed`.

    Raises ToolError: USAGE for a shape that QEMU cannot give, or a kernel of another architecture; INPUT for
    a kernel that is none.
    """
    name = str(fixed.get("arch") or arguments.arch)
    like = getattr(arguments, "like", "")
    threads = qemu.threads(arch.by_name(name), like)
    chosen = Order(
        arch=name,
        line=arguments.line,
        cores=getattr(arguments, "cores", 1),
        threads=getattr(arguments, "threads", None) or max(threads),
        fragments=(*([config.POWERNV] if like else []), *getattr(arguments, "fragment", ())),
        variant=getattr(arguments, "variant", series.PATCHED),
        kernel=getattr(arguments, "kernel", None),
        like=like,
        config=getattr(arguments, "config_from", None),
    )
    chosen = replace(chosen, **fixed)  # type: ignore[arg-type]
    qemu.check(arch.by_name(chosen.arch), chosen.cores, chosen.threads, "tcg", like=chosen.like)
    if chosen.kernel and artifact.load(chosen.kernel).arch != chosen.arch:
        raise ToolError(
            f"{chosen.kernel} is no kernel for {chosen.arch}",
            "name a kernel for the guest's architecture",
            ExitCode.USAGE,
        )
    return chosen


def facts(arguments: argparse.Namespace, *without: str) -> Mapping[str, object]:
    """Return the options that decide, beside the files, how a proof ends; not those that are `without`."""
    skipped = (*NO_FACTS, *without)
    return {name: value for name, value in sorted(vars(arguments).items()) if name not in skipped}
