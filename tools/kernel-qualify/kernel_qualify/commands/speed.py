"""`kernel-qualify speed`: what the series gains, with the counts beside the seconds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hotplug_common.ui import out
from hotplug_host.arguments import positive
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import bare, keeping, options
from kernel_qualify.guest.speed import KERNEL
from kernel_qualify.judge import gains, verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order, in_turns

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "speed"
LIMIT_S = 6 * 3600
QUIET = "loglevel=1"
"""Stock 6.12 warns at length of CPUs that die with their fair server; a console takes its time for that."""
RESERVE = "crashkernel=320M"
EXTRA_MB = 512
SILENCE_S = 3600.0
"""A stock kernel writes nothing during a switch, which takes minutes on a large guest."""
CRASH = "crash"


@dataclass(frozen=True)
class Settings:
    """How guests are run, and what is timed in them: ways of switching by kernel variant."""

    modes: dict[str, tuple[str, ...]]
    iterations: int
    chunk: int | None
    append: str
    bare: bool
    one_thread: bool
    boots: int

    @property
    def crash(self) -> bool:
        """Whether a crash kernel is loaded in one of the ways."""
        return any(CRASH in modes for modes in self.modes.values())


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="time SMT switches, stock against patched",
        description="""Time SMT switches of the stock and the patched kernel in guests of one shape, and
count what each costs the whole machine.
Proven: the gains that are asked of a guest of that size, that the patched kernel pays grace
periods, rendezvous and rebuilds by the chunk, and that no CPU of a chunk went alone. A way of
switching that took longer than on stock is named, and a problem with --boots 3 or more: boots differ
by more than switches of one boot.
Ways to switch: plain (smt/control), expedited (the same with rcu_expedited), crash (the same
with a crash kernel loaded), legacy (cpuN/online, CPU by CPU), legacy-expedited.""",
        examples="""examples:
  kernel-qualify speed
  kernel-qualify speed --cores 8 --iterations 2 --stock-modes plain,expedited
  kernel-qualify speed --bare --cores 64 --iterations 0 --append smt-enabled=off --stock-modes none
  kernel-qualify speed --arch x86_64 --cores 8 --boots 5
  kernel-qualify speed --like powernv10 --cores 4
  kernel-qualify speed --bare --config-from debian-7.3.config --line 7.3""",
    )
    options.add_line(parser)
    options.add_arch(parser)
    options.add_shape(parser)
    options.add_like(parser)
    options.add_fragments(parser)
    options.add_config(parser)
    options.add_iterations(
        parser, "timed switches of each kind, default: %(default)s; 0: only the one that is counted"
    )
    parser.add_argument(
        "--boots",
        type=positive,
        default=1,
        metavar="N",
        help="boots of each kernel, in turns, default: %(default)s",
    )
    for kernel, ways in (("stock", "plain,expedited,legacy"), ("patched", "plain,legacy")):
        parser.add_argument(
            f"--{kernel}-modes",
            type=modes,
            default=modes(ways),
            metavar="MODES",
            help=f"ways to switch the {kernel} kernel: {', '.join(gains.WAYS)}, or none; default: {ways}",
        )
    parser.add_argument("--chunk", type=positive, metavar="N", help="CPUs of a chunk, default: the kernel's")
    parser.add_argument(
        "--append",
        default="",
        metavar="WORDS",
        help="more words for the guest's kernel command line, such as smt-enabled=off, with which a large"
        " guest boots sooner: its secondary threads come with the first switch",
    )
    parser.add_argument(
        "--bare",
        action="store_true",
        help="use guests without systemd and SSH, for hundreds of CPUs",
    )
    parser.add_argument(
        "--one-thread",
        action="store_true",
        help="with --bare: the guest's CPUs take turns on one thread of the emulator, so that one which waits"
        " gives way to the others at once",
    )
    options.add_keeping(parser)


def modes(text: str) -> tuple[str, ...]:
    """Read ways of switching, by commas, or `none`."""
    found = () if text == "none" else tuple(text.split(","))
    for mode in found:
        if mode not in gains.WAYS:
            raise argparse.ArgumentTypeError(f"'{mode}' is not one of {', '.join(gains.WAYS)}")
    return found


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    if arguments.one_thread and not arguments.bare:
        raise ToolError("--one-thread is for bare guests", "add --bare", ExitCode.USAGE)
    if not arguments.stock_modes and not arguments.patched_modes:
        raise ToolError(
            "nothing to time", "give --stock-modes or --patched-modes a way to switch", ExitCode.USAGE
        )
    settings = Settings(
        modes={"stock": arguments.stock_modes, "patched": arguments.patched_modes},
        iterations=arguments.iterations,
        chunk=arguments.chunk,
        append=arguments.append,
        bare=arguments.bare,
        one_thread=arguments.one_thread,
        boots=arguments.boots,
    )
    find = partial(_find, options.order(arguments), settings)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, settings: Settings, ground: Ground) -> list[str]:
    boots: list[list[gains.Figure]] = []
    releases: dict[str, str] = {}
    chunks: dict[str, int] = {}
    shape = (order.arch, order.cores, order.threads)
    kernels = [kernel for kernel, ways in settings.modes.items() if ways]
    for kernel in in_turns(kernels, settings.boots, ground.say):
        records = _measured(replace(order, variant=kernel), settings.modes[kernel], settings, ground)
        boots.append(gains.figures(kernel, records))
        facts = verdicts.the(records, "machine")
        releases[kernel], chunks[kernel] = facts["release"], gains.chunks(facts)
        run = gains.Run(
            *shape,
            min(chunks.values()),
            releases,
            gains.joined(boots),
            bare=settings.bare,
            one_thread=settings.one_thread,
            like=order.like,
            config=order.config.name if order.config else "",
        )
        keeping.save(run, ground.results / "speed.json")
    out(gains.table([run]).rstrip())
    for loss in gains.losses(run):
        out(loss)
    return gains.problems(run)


def _measured(order: Order, ways: Sequence[str], settings: Settings, ground: Ground) -> list[verdicts.Record]:
    """Boot a guest with one of the kernels, and time the switches in it."""
    words = ["--iterations", str(settings.iterations)]
    words += ["--chunk", str(settings.chunk)] if settings.chunk else []
    script = (NAME, *words, "--modes", *ways)
    guest = ground.guest(order)
    files = {KERNEL: guest.image()} if settings.crash else {}
    append = f"{QUIET} {RESERVE if settings.crash else ''} {settings.append}".strip()
    memory = EXTRA_MB if settings.crash else 0
    if settings.bare:
        return guest.alone(
            *script,
            files=files,
            append=append,
            memory=memory,
            silence=SILENCE_S,
            one_thread=settings.one_thread,
        )
    guest.boot(append=append, memory=memory)
    for name, content in files.items():
        guest.send(content, f"{bare.FOLDER}/{name}")
    records = guest.script(*script, silence=SILENCE_S)
    guest.close()
    return records
