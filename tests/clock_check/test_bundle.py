"""The file that travels: what is in it, and that it runs by itself."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hotplug_host
from clock_check import bundle, cli
from hotplug_common.bundle import PACKAGE, host_files, pack, write
from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode
from tests.fakes.fakeclocks import CPUS
from tests.samples.standalone import old_python

ON = f"--cpus={format_cpulist(CPUS)}"


def test_bundle_holds_what_runs_on_hosts_and_the_probe(tmp_path: Path) -> None:
    (tmp_path / "c.pyz").write_bytes(bundle.build_bundle(b"ELF"))
    with zipfile.ZipFile(tmp_path / "c.pyz") as archive:
        assert archive.read("hotplug_host/clocks/clock-probe") == b"ELF"
        names = set(archive.namelist())
    sources = [path for folder in (".", "clocks") for path in (PACKAGE / folder).glob("*.py")]
    own = {str(path.relative_to(PACKAGE.parent)) for path in sources}
    assert names == own | {"__main__.py", "hotplug_host/clocks/clock-probe"}
    assert bundle.build_bundle(b"ELF") == (tmp_path / "c.pyz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "python",
    [
        pytest.param(sys.executable, id="this-python"),
        pytest.param("old", id="python3.9"),
    ],
)
def test_bundle_runs_by_itself(tmp_path: Path, native: Path, python: str) -> None:
    interpreter = old_python() if python == "old" else python
    if interpreter is None:
        pytest.skip("no Python 3.9 here; tests/hotplug_host/test_package.py checks the syntax")
    pyz = tmp_path / "c.pyz"
    write(pyz, bundle.build_bundle(native.read_bytes()))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [interpreter, "-I", str(pyz), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env={}, check=False, timeout=60)

    assert run("--version").stdout == f"clock-check {hotplug_host.__version__}\n"
    assert run("selftest").stdout == "21 checks, all passed\n"
    output = tmp_path / "out.jsonl"
    done = run("order", ON, "--calls=200000", f"--output={output}")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["record"] for line in lines] == ["run", "iteration", "iteration", "end"]
    assert [line["detail"]["order"]["violations"] for line in lines[1:3]] == [0, 0]
    drift = run("drift", ON, "--seconds=0.5")
    assert drift.returncode == 0, drift.stderr
    assert run("scale", "--threads=0").returncode == ExitCode.USAGE
    assert run("bundle", "x86_64").returncode == ExitCode.USAGE


def test_a_bundle_for_another_machine_says_so(tmp_path: Path) -> None:
    pyz = tmp_path / "c.pyz"
    pyz.write_bytes(bundle.build_bundle(b"\x7fELF, but of what"))
    command = [sys.executable, "-I", str(pyz), "scale"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert "clock-probe does not run on this machine" in done.stderr.splitlines()[-1]


def test_a_copy_without_the_probe_says_so(tmp_path: Path) -> None:
    pyz = tmp_path / "c.pyz"
    pyz.write_bytes(pack(host_files("hotplug_host.clocks.command", "clocks")))
    command = [sys.executable, "-I", str(pyz), "selftest"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr == "clock-check: error: this copy carries no clock-probe; name one with --probe\n"


@pytest.mark.slow
def test_bundle_compiles_for_the_machine_asked_for(
    tmp_path: Path, power: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    output = tmp_path / "power.pyz"
    assert cli.main(["bundle", "ppc64le", "--output", str(output)]) == 0
    assert capsys.readouterr().out == f"{output}\n"
    with zipfile.ZipFile(output) as archive:
        program = archive.read("hotplug_host/clocks/clock-probe")
    # ELF: 21 is EM_PPC64; statically linked, there is no PT_INTERP (3) among the program headers.
    machine, _, _, table, *_, size, count = struct.unpack_from("<HIQQQIHHH", program, 18)
    assert (program[:4], machine) == (b"\x7fELF", 21)
    assert 3 not in [struct.unpack_from("<I", program, table + at * size)[0] for at in range(count)]
