"""The compiled loops: their own checks, sanitized builds, and POWER's under user-mode emulation."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clock_check import build
from hotplug_common import arch
from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode, ToolError
from tests.fakes.fakeclocks import CPUS

ON = f"--cpus={format_cpulist(CPUS)}"


def lines(*command: object) -> list[dict[str, Any]]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(code: int, *command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr


@pytest.fixture(params=["native", "power"])
def program(request: pytest.FixtureRequest) -> Iterator[list[object]]:
    """How to run the probe of this machine, and POWER's."""
    binary = request.getfixturevalue(request.param)
    if request.param == "native" or platform.machine() == "ppc64le":
        yield [binary]
        return
    emulator = shutil.which("qemu-ppc64le-static") or shutil.which("qemu-ppc64le")
    if emulator is None:
        pytest.skip("no user-mode emulator for POWER here")
    yield [emulator, binary]


@pytest.mark.slow
def test_the_checks_find_clocks_that_are_wrong_and_no_others(program: list[object]) -> None:
    assert lines(*program, "selftest", ON) == [{"checks": 21, "failures": 0}]


@pytest.mark.parametrize("path", ["vdso", "syscall"])
def test_threads_count_their_calls(program: list[object], path: str) -> None:
    (line,) = lines(*program, "scale", ON, "--threads=2", f"--path={path}", "--duration=100000000")
    assert [thread["cpu"] for thread in line["threads"]] == [CPUS[0], CPUS[1 % len(CPUS)]]
    for thread in line["threads"]:
        assert thread["calls"] > 0
        assert thread["calls"] % 256 == 0
        assert 0 < thread["cpu_ns"] <= thread["elapsed_ns"] * 1.1 + 10_000_000
        assert not thread["moved"]
    assert max(thread["elapsed_ns"] for thread in line["threads"]) >= 90_000_000


def test_more_threads_than_cpus_share_them(native: Path) -> None:
    (line,) = lines(native, "scale", f"--cpus={CPUS[0]}", "--threads=3", "--duration=50000000")
    assert [thread["cpu"] for thread in line["threads"]] == [CPUS[0]] * 3


def test_calls_are_in_order(program: list[object]) -> None:
    (line,) = lines(*program, "order", ON, "--threads=2", "--calls=200001")
    assert (line["calls"], line["violations"], line["worst_ns"]) == (200_001, 0, 0)
    assert sum(thread["calls"] for thread in line["threads"]) == 200_001


def test_a_thread_whose_clock_is_behind_is_found(native: Path) -> None:
    for _ in range(20):
        (line,) = lines(native, "order", ON, "--threads=2", "--calls=1000000", "--skew=-900000000")
        if line["violations"]:  # on a busy machine one thread may have made all calls
            break
    assert 0 < line["worst_ns"] <= 900_000_000
    assert line["crossed"] > 0


def test_a_cpu_whose_clock_is_ahead_is_found(native: Path) -> None:
    if len(CPUS) < 2:
        pytest.skip("one CPU has no other to be ahead of")
    (right,) = lines(native, "offset", ON)
    assert right["low_ns"] <= 0 <= right["high_ns"]
    (wrong,) = lines(native, "offset", ON, "--skew=700000000")
    assert 0 < wrong["low_ns"] <= 700_000_000 <= wrong["high_ns"]


def test_samples_come_from_every_cpu_in_turn(program: list[object]) -> None:
    samples = lines(*program, "drift", ON, "--duration=100000000", "--interval=20000000")
    assert {sample["cpu"] for sample in samples} == set(CPUS)
    for sample in samples:
        assert sample["before_ns"] <= sample["after_ns"]


def test_a_cpu_that_is_not_there_is_named(native: Path) -> None:
    for command in (["scale"], ["order"], ["drift"]):
        assert refused(3, native, *command, "--cpus=100000").startswith("cannot run on CPU 100000: ")


@pytest.mark.parametrize("device", ["/dev/null", "/dev/missing", "/etc/passwd"])
def test_what_is_no_clock_is_refused(native: Path, device: str) -> None:
    said = refused(4, native, "drift", ON, f"--reference={device}")
    assert said.startswith(f"cannot read {device} as a clock: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["scale"],
        ["fly", ON],
        ["scale", "--cpus="],
        ["scale", "--cpus=1-0"],
        ["scale", ON, "--threads=0"],
        ["scale", ON, "--threads=-1"],
        ["scale", ON, "--threads=99999999999999999999"],
        ["scale", ON, "--path=rdtsc"],
        ["order", ON, "--calls=1e9"],
        ["order", ON, "--skew=--1"],
        ["order", ON, "--colour=red"],
        ["order", ON, "more"],
    ],
)
def test_bad_arguments_show_the_usage(native: Path, arguments: list[str]) -> None:
    assert refused(2, native, *arguments).rpartition("usage: clock-probe")[1]


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["undefined", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, sanitizer: str) -> None:
    if shutil.which("gcc") is None or platform.machine() not in arch.ARCHES:
        pytest.skip("no C compiler here")
    binary = tmp_path / "clock-probe"
    flags = ["-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    try:
        build.compile_probe(arch.by_name(platform.machine()), binary, flags)
    except ToolError as error:
        pytest.skip(f"no {sanitizer} sanitizer here: {error}")
    # ThreadSanitizer of older compilers does not find its way in a randomised address space.
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    for arguments in (["selftest"], ["scale", "--threads=3", "--duration=50000000"], ["offset"]):
        done = subprocess.run(
            [*fixed, str(binary), *arguments, ON],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=environment,
        )
        assert done.returncode == 0, done.stderr


def test_a_compiler_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"powerpc64le-linux-gnu-gcc is not installed; tools/setup") as caught:
        build.compile_probe(arch.PPC64LE, tmp_path / "out")
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_probe_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled: list[Path] = []

    def compile_probe(_: arch.Arch, output: Path) -> None:
        compiled.append(output)
        output.write_bytes(b"ELF")

    monkeypatch.setattr(build, "compiler", lambda _: "true")
    monkeypatch.setattr(build, "compile_probe", compile_probe)
    first = build.cached_probe(arch.X86_64, tmp_path)
    assert build.cached_probe(arch.X86_64, tmp_path) == first
    assert len(compiled) == 1
    assert list(first.parent.iterdir()) == [first]
