"""The part of this program that runs on measured hosts, as one file or as a script for standard input."""

from __future__ import annotations

import base64
import bz2

from hotplug_common import bundle

#: The parts of the host package that the commands need.
FOLDERS = ("timing", "preflight")
#: What is fed to a host's python3 where nothing is to be written. Old ones understand it, so as to be named.
SCRIPT = """\
# hotplug-timer, for python3's standard input: the archive is unpacked into memory and started from there.
import sys
if sys.version_info < (3, 9):
    print('{"error": "python3 is %d.%d and has to be 3.9 or later"}' % sys.version_info[:2])
    sys.exit(1)
import base64, bz2, os
try:
    number = os.memfd_create("hotplug-timer.pyz", 8)  # MFD_NOEXEC_SEAL, which hardened kernels demand
except OSError:
    number = os.memfd_create("hotplug-timer.pyz", 0)  # before Linux 6.3
with os.fdopen(number, "wb", closefd=False) as archive:
    archive.write(bz2.decompress(base64.b64decode("@ARCHIVE@")))
os.execv(sys.executable, [sys.executable, "/proc/self/fd/%d" % number] + sys.argv[1:])
"""


def build_bundle() -> bytes:
    """Return the zipapp of `run`, `smt` and `preflight`."""
    return bundle.pack(bundle.host_files("hotplug_host.timing.command", *FOLDERS))


def build_script() -> bytes:
    """Return the zipapp, with the steps of playbooks, as a script that python3 reads from its standard input.

    Each step of a playbook sends it: bzip2 saves a fifth over zlib.
    """
    files = bundle.host_files("hotplug_host.agent.command", "agent", *FOLDERS)
    archive = base64.b64encode(bz2.compress(bundle.pack(files)))
    return SCRIPT.encode().replace(b"@ARCHIVE@", archive)
