"""The lab that proofs use: what it starts ends with what waits for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hotplug_common import process
from kernel_qualify import lab
from tests import ROOT


def test_a_play_ends_when_its_proof_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on to its end, and the proof waited for it, guest and all."""
    playbook = tmp_path / "ansible-playbook"
    playbook.write_text("#!/bin/sh\nexec sleep 30\n")
    playbook.chmod(0o755)
    monkeypatch.setattr(lab, "BIN", tmp_path)
    began = time.monotonic()
    with pytest.raises(process.Expired), process.no_longer_than(0.2):
        lab.Lab(tmp_path, ROOT).play("ab.yml", "guest", {})
    assert time.monotonic() - began < 20
