from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clock_check import build, cli
from hotplug_common import arch
from tests.fakes.fakeclocks import FakeClocks, replies, write_probe


@pytest.fixture
def host(tmp_path: Path) -> FakeClocks:
    """A server with three clocksources, TSC in use, and no cpufreq."""
    root = tmp_path / "host"
    root.mkdir()
    return FakeClocks(root)


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    """A fake probe on a host whose clock is right."""
    return write_probe(tmp_path / "probe", replies())


@pytest.fixture
def run(host: FakeClocks, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call clock-check on the fake host; returns exit code, output and errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.main([*map(str, arguments), f"--sysroot={host.root}"])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real probe for this machine."""
    return compiled(tmp_path_factory, platform.machine())


@pytest.fixture(scope="session")
def power(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real probe for POWER."""
    return compiled(tmp_path_factory, arch.PPC64LE.name)


def compiled(factory: pytest.TempPathFactory, machine: str) -> Path:
    chosen = arch.by_name(machine)
    if shutil.which(f"{chosen.cross_prefix}gcc") is None:
        pytest.skip(f"no C compiler for {machine} here")
    output = factory.mktemp(machine) / "clock-probe"
    build.compile_probe(chosen, output)
    return output
