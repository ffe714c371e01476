"""Run the kernel's test of smt/control: to its end, and until a signal; report what it left behind."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from kernel_qualify.guest import machine
from kernel_qualify.guest.machine import CONTROL, CPUS, record, say, write

HELPERS = "ktap_helpers.sh"
UNDER_WAY_S = 1.0


def installed(script: Path, folder: Path) -> Path:
    """Put the script and what it includes where the kernel's tree has them; return where it is."""
    for name, place in ((script.name, "cpu-hotplug"), (HELPERS, "kselftest")):
        (folder / place).mkdir()
        shutil.copy(script.parent / name, folder / place / name)
    return folder / "cpu-hotplug" / script.name


def state() -> dict[str, Any]:
    """Return what the script has to leave as it was."""
    return {"online": machine.online(), "control": machine.read(CONTROL)}


def run(script: Path, *options: str, signum: int = 0, after: str = "") -> None:
    """One run; a signal, if there is one, comes a while after the line of the case `after`."""
    before = state()
    begin = time.monotonic()
    lines = []
    sent = False
    with subprocess.Popen(
        ["bash", str(script), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        for line in running.stdout or ():
            lines.append(line.rstrip("\n"))
            say(f"| {lines[-1]}")
            if signum and not sent and after in line:
                time.sleep(UNDER_WAY_S)
                running.send_signal(signum)
                sent = True
    record(
        "smt-control",
        signal=signum,
        exit_code=running.returncode,
        lines=lines,
        seconds=round(time.monotonic() - begin, 1),
        before=before,
        after=state(),
    )


def main() -> None:
    """To its end with all CPUs online; until a signal with SMT off, and with a CPU offline."""
    parser = argparse.ArgumentParser()
    parser.add_argument("script", type=Path)
    parser.add_argument("--last", required=True, help="the case before the concurrent writers")
    options = parser.parse_args()
    machine.all_on()
    victims = machine.secondaries()
    record("machine", **machine.settings(), present=machine.present(), victims=victims)
    with tempfile.TemporaryDirectory() as folder:
        script = installed(options.script, Path(folder))
        run(script)
        write(CONTROL, "off")
        run(script, signum=signal.SIGTERM, after="level off")
        machine.all_on()
        write(CPUS / f"cpu{victims[0]}/online", 0)
        run(script, signum=signal.SIGINT, after=options.last)
    machine.all_on()
    record("end", online=machine.online())


if __name__ == "__main__":
    main()
