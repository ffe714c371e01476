"""Plays QEMU for the tests: writes a console log, then lives on or ends."""

import sys
import time
from pathlib import Path

_, _name_option, _name, console, ending = sys.argv
Path("console.log").write_text(console.replace("\\n", "\n"))
if ending == "exit":
    sys.stdout.write("qemu-system-ppc64: could not allocate memory\n")
    sys.exit(1)
time.sleep(60)
