"""The archive that a guest gets: it holds everything its scripts import, and runs on Python alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernel_qualify import proving
from kernel_qualify.guest import main

SCRIPTS = (
    *(
        "churn",
        "clocks",
        "cores",
        "costs",
        "early",
        "injection",
        "instructions",
        "kexecs",
        "leaks",
        "programming",
        "rtprograms",
        "selftests",
        "smtcontrol",
        "speed",
        "stress",
    ),
    *("timers", "torture"),
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "qualify.pyz"
    path.write_bytes(proving.archive())
    return path


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_starts_without_the_checkout(script: str, archive: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", archive, script, "--help"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


def test_every_script_is_looked_at() -> None:
    folder = Path(main.__file__).parent
    with_main = {path.stem for path in folder.glob("*.py") if "\ndef main()" in path.read_text()}
    assert with_main - {"main"} == set(SCRIPTS)


def test_the_controllers_part_stays_at_home(archive: Path) -> None:
    names = zipfile.ZipFile(archive).namelist()
    assert {name.split("/")[1] for name in names if name.startswith("kernel_qualify/")} == {
        "__init__.py",
        "guest",
    }
    assert not [name for name in names if name.startswith(("hotplug_common", "tests"))]


def test_the_same_scripts_give_the_same_bytes() -> None:
    assert proving.archive() == proving.archive()
