"""What the tests promise of pytest itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import ROOT

#: Calls of the code under test that catch signals for as long as they last.
CALLS = {
    "a-run": """
def test_it():
    from hotplug_host.signals import StopRequest
    with StopRequest().installed() as stop:
        marker.touch()
        stop.sleep(60)
        stop.sleep(60)
""",
    "a-program": """
def test_it():
    from hotplug_host.entry import guarded
    def work():
        marker.touch()
        time.sleep(60)
    guarded("a-program", work)
    time.sleep(60)
""",
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_pytest_while_code_under_test_would_catch_it(
    call: str, number: signal.Signals, tmp_path: Path
) -> None:
    marker, file = tmp_path / "marker", tmp_path / "test_it.py"
    file.write_text(f"import pathlib, time\nmarker = pathlib.Path({str(marker)!r})\n{CALLS[call]}")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", file],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not marker.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(timeout=10) == -number
    finally:
        process.kill()
        process.wait()
