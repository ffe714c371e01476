"""`kernel-qualify stress`: SMT switches by the hundred on a kernel that checks itself."""

from __future__ import annotations

import argparse
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hotplug_host.arguments import positive
from hotplug_host.subcommands import add_subcommand
from kernel_qualify import options
from kernel_qualify.judge import verdicts
from kernel_qualify.proof import Ground, Proof
from kernel_qualify.proving import Order

if TYPE_CHECKING:
    from hotplug_host.subcommands import Commands

NAME = "stress"
LIMIT_S = 8 * 3600
HOST_SEEN_BY_GUEST = "10.0.2.2"


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets: network traffic of the guest's own making."""

    def handle(self) -> None:
        """Send back everything until the guest closes the connection."""
        while data := self.request.recv(65536):
            self.request.sendall(data)


@contextmanager
def echo_server() -> Iterator[str]:
    """Serve on the loopback; give the server's address as a guest has it."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{HOST_SEEN_BY_GUEST}:{server.server_address[1]}"
        server.shutdown()


def add(commands: Commands) -> None:
    """Add the subcommand."""
    parser = add_subcommand(
        commands,
        NAME,
        summary="switch SMT hundreds of times under load",
        description="""Switch SMT while everything that cares about CPUs goes on, on a kernel that checks
itself.
Proven: each switch succeeds and leaves the CPUs it should; afterwards CPUs still go in chunks, no
callback of a chunk starts once a CPU of it has parked its threads, and the domains are what they
were; lockdep, RCU, the allocators and the scheduler have nothing to report.""",
        examples="""examples:
  kernel-qualify stress --switches 40
  kernel-qualify stress --line 7.3 --fragment kasan
  kernel-qualify stress --fragment kcsan --switches 6
  kernel-qualify stress --like powernv9 --cores 4
  kernel-qualify stress --arch x86_64 --cores 4 --fragment rt
  kernel-qualify stress --append 'threadirqs rcutree.use_softirq=0'""",
    )
    options.add_guest(parser)
    parser.add_argument(
        "--switches", type=positive, default=200, metavar="N", help="SMT switches, default: %(default)s"
    )
    parser.add_argument(
        "--append",
        default="",
        metavar="WORDS",
        help="words for the kernel's command line: threadirqs rcutree.use_softirq=0 moves softirqs and RCU "
        "callbacks to threads that a CPU parks before it goes offline",
    )
    options.add_keeping(parser)


def proofs(arguments: argparse.Namespace) -> list[Proof]:
    """Return the one proof that the options ask for."""
    find = partial(_find, options.order(arguments), arguments.switches, arguments.append)
    return [Proof(NAME, arguments.line, options.facts(arguments), find, LIMIT_S)]


def _find(order: Order, switches: int, append: str, ground: Ground) -> list[str]:
    guest = ground.guest(order)
    guest.boot("debug", "validation", append=append)
    with echo_server() as echo:
        records = guest.script("stress", "--switches", str(switches), "--echo", echo)
    return verdicts.stress_problems(records, switches) + guest.log_problems()
