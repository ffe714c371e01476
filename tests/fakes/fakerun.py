"""Runs `hotplug-timer run ...` on a fake host: python fakerun.py ROOT PAUSE ARGUMENT..."""

import sys
from pathlib import Path

from hotplug_host.timing import command
from tests.fakes.fakehost import FakeHost, FakeSysfs

root, pause = Path(sys.argv[1]), float(sys.argv[2])
command.Sysfs = lambda _root: FakeSysfs(FakeHost(root), pause)
sys.exit(command.main(["run", *sys.argv[3:]]))
