import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hotplug_host
from hotplug_common.bundle import PACKAGE, write
from hotplug_host.errors import ExitCode, ToolError
from hotplug_timer import bundle
from tests import ROOT
from tests.fakes.fakehost import FakeHost
from tests.samples.standalone import old_python

FOLDERS = (".", "timing", "preflight")
SOURCES = sorted(path for folder in FOLDERS for path in (PACKAGE / folder).glob("*.py"))


def test_bundle_holds_the_host_part_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "t.pyz", bundle.build_bundle())
    with zipfile.ZipFile(tmp_path / "t.pyz") as archive:
        names = archive.namelist()
    assert names == sorted(["__main__.py", *(str(path.relative_to(PACKAGE.parent)) for path in SOURCES)])


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first = bundle.build_bundle()
    for path in SOURCES:
        path.touch()
    assert bundle.build_bundle() == first


def test_a_bundle_that_cannot_be_written_is_an_environment_fault(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot write") as caught:
        write(tmp_path / "missing" / "t.pyz", b"")
    assert caught.value.code == ExitCode.ENVIRONMENT


@pytest.mark.slow
@pytest.mark.parametrize(
    "python",
    [
        pytest.param(sys.executable, id="this-python"),
        pytest.param("old", id="python3.9"),
    ],
)
def test_bundle_runs_by_itself(tmp_path: Path, host: FakeHost, python: str) -> None:
    interpreter = old_python() if python == "old" else python
    if interpreter is None:
        pytest.skip("no Python 3.9 here; tests/hotplug_host/test_package.py checks the syntax")
    pyz = tmp_path / "t.pyz"
    write(pyz, bundle.build_bundle())

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [interpreter, "-I", str(pyz), *arguments]
        environment = {"PATH": str(host.install_ppc64_cpu(path="control"))}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert run("--version").stdout == f"hotplug-timer {hotplug_host.__version__}\n"
    common = [
        "smt=off",
        "smt=on",
        "--variant=stock",
        "--count-iterations=0",
        "--settle=0",
        f"--sysroot={host.root}",
    ]
    output = tmp_path / "out.jsonl"
    done = run("run", *common, "--iterations=1", f"--output={output}")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(output.read_text().splitlines()) == 4
    refused = run("run", *common, "--iterations=0", f"--output={tmp_path / 'no'}")
    assert refused.returncode == ExitCode.USAGE
    assert re.fullmatch(r"hotplug-timer: error: argument --iterations: '0' is not .*; .*\n", refused.stderr)
    host.add_fqs_delays()
    switched = run("smt", "off", "--expedite", "--tune-fqs", f"--sysroot={host.root}")
    assert (switched.returncode, switched.stderr) == (0, "")
    assert switched.stdout.startswith("smt=off: 2 of 8 CPUs online after ")
    assert host.get("sys/kernel/rcu_expedited") == "0"
    assert run("compare").returncode == ExitCode.USAGE


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(sys.executable, id="this-python", marks=pytest.mark.slow),
        pytest.param("old", id="python3.9"),
    ],
)
def test_the_script_runs_from_standard_input(tmp_path: Path, host: FakeHost, python: str) -> None:
    interpreter = old_python() if python == "old" else python
    if interpreter is None:
        pytest.skip("no Python 3.9 here; tests/hotplug_host/test_package.py checks the syntax")
    before = sorted(host.root.rglob("*"))
    done = subprocess.run(
        [interpreter, "-", "preflight", "--for=time", "--json", f"--sysroot={host.root}"],
        input=bundle.build_script(),
        capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["facts"]["release"] == host.get("proc/sys/kernel/osrelease")
    step = subprocess.run(
        [interpreter, "-", "smt-state", "--level=on", "--exactly=0-7", f"--sysroot={host.root}"],
        input=bundle.build_script(),
        capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert (step.returncode, json.loads(step.stdout)) == (
        0,
        {"changed": False, "online": "0-7", "level": "on"},
    )
    assert sorted(host.root.rglob("*")) == before


def test_an_old_python_is_told_so() -> None:
    """Both versions that are tested are new enough: the check alone is run, as another version."""
    check = bundle.SCRIPT.partition("import base64")[0]
    old = check.replace("sys.version_info", "(3, 6, 8)")
    done = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)) == (
        1,
        {"error": "python3 is 3.6 and has to be 3.9 or later"},
    )


def test_the_script_is_small_enough_to_be_sent_for_each_step() -> None:
    """An action plugin writes it to the host's Python, once for each task."""
    assert len(bundle.build_script()) < 116_000


def test_version_is_that_of_the_distribution() -> None:
    assert f'version = "{hotplug_host.__version__}"' in (ROOT / "pyproject.toml").read_text()
