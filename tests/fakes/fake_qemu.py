"""Plays QEMU for the tests: writes a console log, then lives on, runs or ends."""

import sys
import threading
import time
from pathlib import Path

_, _name_option, _name, console, ending = sys.argv
Path("console.log").write_text(console.replace("\\n", "\n"))
if ending == "exit":
    sys.stdout.write("qemu-system-ppc64: could not allocate memory\n")
    sys.exit(1)


def cpu() -> None:
    """Run now and then, as a thread of QEMU's that emulates a CPU does."""
    while ending == "run":
        time.sleep(0.01)


threading.Thread(target=cpu, daemon=True).start()
time.sleep(60)
