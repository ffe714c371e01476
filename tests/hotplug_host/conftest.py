from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tests
from hotplug_host.signals import StopRequest
from hotplug_host.timing.cycle import parse_operation
from hotplug_host.timing.plan import Settings
from hotplug_host.timing.runner import Runner
from tests.fakes.fakehost import FakeHost, FakeSysfs

GOLDEN = tests.GOLDEN / "hotplug_timer"


@pytest.fixture
def golden() -> Path:
    return GOLDEN


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A POWER host of 2 cores x SMT4, SMT on."""
    root = tmp_path / "host"
    root.mkdir()
    return FakeHost.build(root)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        operations=(parse_operation("smt=off"), parse_operation("smt=on")),
        variant="stock",
        iterations=2,
        count_iterations=0,
        warmup=0,
        settle_s=0.0,
        timeout_s=20.0,
        via="smt-control",
        boot_method="kexec",
        emulated=False,
        output=tmp_path / "out.jsonl",
        resume=False,
    )


@pytest.fixture
def use_ppc64_cpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install the fake ppc64_cpu on a host and put it on PATH."""

    def install(host: FakeHost, **behaviour: object) -> None:
        monkeypatch.setenv("PATH", f"{host.install_ppc64_cpu(**behaviour)}:{os.environ['PATH']}")

    return install


@pytest.fixture
def execute(host: FakeHost, settings: Settings) -> Iterator[Callable[..., str]]:
    """Run on the fake host with some settings changed; returns what was printed on stderr."""
    stops: list[StopRequest] = []

    def run(fs: FakeSysfs | None = None, **changes: object) -> str:
        stream = io.StringIO()
        stops.append(StopRequest())
        chosen = replace(settings, **changes)  # type: ignore[arg-type]
        Runner(chosen, fs or FakeSysfs(host), stops[-1], stream).execute()
        return stream.getvalue()

    yield run
    for stop in stops:
        stop.close()
