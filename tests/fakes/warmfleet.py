"""smt-fleet, whose ansible-playbook is that of playserver.py."""

from __future__ import annotations

import sys

from smt_fleet import playbooks
from smt_fleet.cli import main
from tests import FAKES

if __name__ == "__main__":
    installed = playbooks.program
    warm = {"ansible-playbook": str(FAKES / "programs/ansible-playbook")}
    playbooks.program = lambda name: warm.get(name) or installed(name)
    sys.exit(main())
