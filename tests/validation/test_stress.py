"""SMT switches by the hundred while everything that cares about CPUs goes on, on a kernel that checks itself.

Proven: each switch succeeds and leaves the CPUs it should; afterwards CPUs still go in chunks, and the
domains are what they were; lockdep, RCU, the allocators and the scheduler have nothing to report.
"""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import verdicts
from proving import Proving, none

pytestmark = pytest.mark.timeout(8 * 3600)
HOST_SEEN_BY_GUEST = "10.0.2.2"


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets: network traffic of the guest's own making."""

    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


@contextmanager
def echo_server() -> Iterator[str]:
    """A server on the loopback, and its address as a guest has it."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{HOST_SEEN_BY_GUEST}:{server.server_address[1]}"
        server.shutdown()


def test_stress(proving: Proving, pytestconfig: pytest.Config) -> None:
    switches = pytestconfig.getoption("--switches")
    proving.boot("debug", "validation")
    with echo_server() as echo:
        records = proving.script("stress", "--switches", str(switches), "--echo", echo)
    none(verdicts.stress_problems(records, switches) + proving.log_problems())
