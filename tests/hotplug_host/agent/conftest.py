"""Fixtures of the steps' tests: a step is called in this process, its answer read from what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotplug_host.agent import command

Step = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def step(capsys: pytest.CaptureFixture[str]) -> Step:
    """Call a step as a role does; returns exit code and answer."""

    def call(*words: object) -> tuple[int, dict[str, Any]]:
        code = command.main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert err == ""
        answer: dict[str, Any] = json.loads(out)
        return code, answer

    return call


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a shell script in front of PATH, under a name."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")

    def make(name: str, body: str) -> None:
        path = directory / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    return make
