"""`kernel-qualify rcutorture`: RCU's promises hold while CPUs come and go."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.arguments import minutes
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options, stocktree
from kernel_qualify.judge import logs, verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "rcutorture"
LIMIT_S = 8 * 3600
OWN, SMT = "rcutorture", "smt"
HOTPLUG = (OWN, SMT)
"""Whose CPU hotplug goes on meanwhile: rcutorture's own, one CPU at a time, or SMT switches, in chunks."""
HOLDOFF_S = 150
"""Time to boot with all CPUs."""
TREE03 = (
    "rcutree.gp_preinit_delay=12 rcutree.gp_init_delay=3 rcutree.gp_cleanup_delay=3 rcutree.kthread_prio=2 "
    "threadirqs rcutree.use_softirq=0"
)
EXPEDITING = "WARN_ON_ONCE(expediting == 0 && rcu_gp_is_expedited())"


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="torture RCU while CPUs come and go",
        description="""Run rcutorture as the kernel's scenario TREE03 does, while CPUs come and go all
the time.
Proven: RCU's promises hold, once with the CPU hotplug that rcutorture does itself (one CPU at a
time: the legacy path) and once with SMT switches (chunks). rcutorture is built in and starts with
the kernel; it ends with a power-off, so that its verdict is the last thing on the console.""",
        examples="""examples:
  kernel-qualify rcutorture --minutes 3
  kernel-qualify rcutorture --hotplug smt --line 7.3""",
    )
    options.add_line(parser)
    options.add_arch(parser)
    options.add_shape(parser)
    options.add_variant(parser)
    options.add_fragments(parser)
    parser.add_argument(
        "--minutes", type=minutes, default=30.0, metavar="N", help="minutes of each, default: %(default)g"
    )
    parser.add_argument(
        "--hotplug", choices=HOTPLUG, action="append", help="whose CPU hotplug goes on, default: both"
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return a proof for each kind of CPU hotplug."""
    order = options.order(arguments)
    facts = options.facts(arguments, "hotplug")
    return [
        Proof(
            f"{NAME}/{hotplug}",
            arguments.line,
            facts,
            partial(_find, order, arguments.minutes, hotplug == OWN),
            LIMIT_S,
        )
        for hotplug in arguments.hotplug or HOTPLUG
    ]


def parameters(duration: float, own_hotplug: bool) -> str:
    """Return the kernel's command line for a torture of `duration` minutes."""
    words = [
        TREE03,
        f"rcutorture.shutdown_secs={HOLDOFF_S + round(60 * duration)}",
        "rcutorture.stat_interval=30",
    ]
    if own_hotplug:
        # TREE03 has 200 jiffies, where HZ is 1000.
        words.append(f"rcutorture.onoff_interval=20 rcutorture.onoff_holdoff={HOLDOFF_S}")
    else:
        # The boost test has a hotplug state of its own, which has not opted in to chunks.
        words.append("rcutorture.test_boost=0")
    return " ".join(words)


def expediting(text: str) -> logs.Allowed:
    """Return rcutorture's warning of expedited grace periods, by its line in the text of rcutorture.c."""
    number = 1 + text[: text.index(EXPEDITING)].count("\n")
    return logs.expedited_by_others(number)


def _find(order: Order, duration: float, own: bool, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    guest.boot("rcutorture", append=parameters(duration, own))
    problems = []
    if not own:
        records = guest.script("torture", "--seconds", str(60 * duration - 60))
        machine = verdicts.the(records, "machine")
        problems += verdicts.completed(records, machine)
        problems += verdicts.plain_switch_problems(verdicts.of_kind(records, "switch"), machine, 64)
    log = guest.until_gone(HOLDOFF_S + 60 * duration + 600)
    problems += verdicts.torture_problems(log, operations=round(10 * duration) if own else 0)
    allowed: tuple[logs.Allowed, ...] = logs.ALLOWED
    if not own:
        text = stocktree.file(order.line, logs.TORTURE, ground.paths).decode()
        allowed = (*logs.ALLOWED, expediting(text))
    return problems + guest.past_problems(log, allowed)
