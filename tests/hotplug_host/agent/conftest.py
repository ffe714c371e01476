"""Fixtures of the steps' tests: a step is called in this process, its answer read from what it prints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotplug_host.agent import command
from tests.fakes import fake_lpar
from tests.fakes.fake_lpar import FakeLpar, files_below

Answer = tuple[int, dict[str, Any]]
Step = Callable[..., Answer]
Ask = Callable[..., Answer]
#: A kernel that a run installs.
RELEASE = "6.12-patched"
SHA256 = hashlib.sha256(b"kernel\n").hexdigest()
TAR = {"format": "tar", "name": "linux-trial", "file": "linux-trial.tar.gz"}


def is_log(path: Path) -> bool:
    """Whether stand-ins for programs note there how they were called."""
    return path.name in ("asked", "called") or path.suffix == ".log"


@pytest.fixture
def step(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Step:
    """Call a step as a role does; returns exit code and answer.

    Before that it is called as check mode does: it has to change nothing, and to foretell what will change.
    """

    def once(words: list[str]) -> tuple[int, dict[str, Any]]:
        code = command.main(words)
        out, err = capsys.readouterr()
        assert err == ""
        answer: dict[str, Any] = json.loads(out)
        return code, answer

    def call(*given: object) -> tuple[int, dict[str, Any]]:
        name, *words = map(str, given)
        foretold: dict[str, Any] = {}
        if name in command.DRY and "--dry-run" not in words:
            before = files_below(tmp_path)
            _, foretold = once([name, "--dry-run", *words])
            after = files_below(tmp_path)
            for path in [path for path in after if is_log(path)]:
                after.pop(path)
                path.unlink()
                if path in before:
                    path.write_bytes(before[path])
            assert after == {path: text for path, text in before.items() if not is_log(path)}
        code, answer = once([name, *words])
        if code == 0 and foretold:
            assert foretold.get("changed") == answer["changed"], foretold
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


@pytest.fixture
def lpar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLpar:
    """A host with GRUB's tools of its own on PATH."""
    made = fake_lpar.build(tmp_path)
    monkeypatch.setenv("PATH", f"{made.root / 'bin'}:/usr/bin:/bin")
    return made


@pytest.fixture
def debian(lpar: FakeLpar) -> FakeLpar:
    lpar.distribution("ID=debian\n", "grub")
    lpar.put(f"boot/hotplug-acceleration/{RELEASE}/vmlinux", "kernel")
    return lpar


@pytest.fixture
def entry(step: Step) -> Ask:
    """Call the step for one entry on a host of a family."""

    def call(host: FakeLpar, action: str, *arguments: str) -> Answer:
        return step(
            "boot-entry",
            f"--action={action}",
            f"--package={json.dumps(TAR)}",
            f"--release={RELEASE}",
            "--image=vmlinux",
            f"--sha256={SHA256}",
            "--words=panic=10",
            "--cmdline=BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet",
            "--initrd=/boot/initrd.img",
            f"--sysroot={host.root}",
            *arguments,
        )

    return call
