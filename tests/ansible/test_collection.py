"""ansible/ as a collection: built, installed, and its playbooks run by name."""

from __future__ import annotations

import subprocess
import sysconfig
import tarfile
from pathlib import Path

import pytest
import yaml

from hotplug_host.errors import ExitCode
from tests import ROOT
from tests.fakes.fake_lpar import ANSIBLE, BASE_PYTHON, BIN, ROOT_HERE, FakeLpar, PlayResult

GALAXY = yaml.safe_load((ANSIBLE / "galaxy.yml").read_text())


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [*ROOT_HERE, *command],
        cwd=folder,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an installed collection, which was built here."""
    folder = tmp_path_factory.mktemp("galaxy")
    run(folder, "ansible-galaxy", "collection", "build", str(ANSIBLE), "--output-path", str(folder))
    archive = folder / f"smt-hotplug-{GALAXY['version']}.tar.gz"
    with tarfile.open(archive) as packed:
        names = set(packed.getnames())
    assert {"playbooks/apply.yml", "roles/deploy/tasks/main.yml", "plugins/callback/smt_fleet.py"} <= names
    assert not [name for name in names if name.startswith("molecule") or name.endswith(".pyc")]
    where = folder / "collections"
    run(folder, "ansible-galaxy", "collection", "install", "--offline", str(archive), "-p", str(where))
    return where


def outside(host: FakeLpar, folder: Path, collections: Path) -> dict[str, str]:
    """The environment of a controller without a checkout, in a folder."""
    environment = {**host.environment(), "ANSIBLE_COLLECTIONS_PATH": str(collections), "PWD": str(folder)}
    del environment["ANSIBLE_CONFIG"]
    return environment


@pytest.mark.slow
def test_playbooks_run_by_their_names_from_the_installed_collection(
    host: FakeLpar, collections: Path, tmp_path: Path
) -> None:
    printed = run(
        tmp_path,
        str(BIN / "ansible-playbook"),
        *host.options(preflight_purpose="time"),
        "smt.hotplug.preflight",
        **outside(host, tmp_path, collections),
    )

    assert "| fake | go |" in printed
    assert (tmp_path / "preflight/preflight.json").exists()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a Python environment with the project's wheel; what it needs is that of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    run(folder, str(BIN / "python"), "-m", "venv", "--without-pip", "smt")
    pip = (str(BIN / "python"), "-m", "pip", "--disable-pip-version-check", "--no-cache-dir")
    run(folder, *pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", ".", str(ROOT))
    (wheel,) = folder.glob("*.whl")
    made = folder / "smt/bin"
    run(folder, *pip, "--python", str(made / "python"), "install", "--no-deps", "--no-index", str(wheel))
    (packages,) = folder.glob("smt/lib/*/site-packages")
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("ansible", "ansible-galaxy", "ansible-playbook"):
        _, _, text = (BIN / name).read_text().partition("\n")
        (made / name).write_text(f"#!{made}/python\n{text}")
        (made / name).chmod(0o755)
    return made


@pytest.mark.slow
def test_smt_fleet_of_the_wheel_takes_the_playbooks_of_the_collection(
    host: FakeLpar, collections: Path, programs: Path, tmp_path: Path
) -> None:
    _, inventory, _, variables = host.options()
    check = (str(programs / "smt-fleet"), "check", "-i", inventory, "-e", variables, "--output-dir", "runs")
    environment = outside(host, tmp_path, collections)

    printed = run(tmp_path, *check, **environment)

    assert "1 ok-unchanged" in printed
    (made,) = (tmp_path / "runs").iterdir()
    assert (made / "preflight.json").exists()

    nothing = {**environment, "ANSIBLE_COLLECTIONS_PATH": str(tmp_path)}
    done = subprocess.run(
        [*ROOT_HERE, *check], cwd=tmp_path, env=nothing, capture_output=True, text=True, check=False
    )
    assert done.returncode == ExitCode.ENVIRONMENT
    step = f"ansible-galaxy collection install smt-hotplug-{GALAXY['version']}.tar.gz"
    assert done.stderr == f"smt-fleet: error: the collection smt.hotplug is not installed; {step}\n"
    assert list((tmp_path / "runs").iterdir()) == [made]


@pytest.mark.slow
def test_an_ansible_without_the_tools_beside_it_is_told_so(host: FakeLpar, tmp_path: Path) -> None:
    """A playbook of the collection looks for the program, and a module for its package."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "bin").mkdir(parents=True)
    (elsewhere / "bin/python").symlink_to(BASE_PYTHON)
    (elsewhere / "pyvenv.cfg").write_text(f"home = {Path(BASE_PYTHON).parent}\n")
    ours = {path.name for path in (ROOT / "tools").glob("*/*")}
    packages = elsewhere / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name not in ours:
            (packages / path.name).symlink_to(path)
    own = tmp_path / "own.yml"
    tasks = [{"smt.hotplug.host_state": {"for": "switch"}}]
    own.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    environment = outside(host, tmp_path, ANSIBLE / "playbooks/collections")
    environment |= {"PYTHONPATH": str(packages), "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"}

    def told(playbook: str) -> str:
        words = [str(elsewhere / "bin/python"), "-m", "ansible.cli.playbook", *host.options(), playbook]
        done = subprocess.run(
            [*ROOT_HERE, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        result = PlayResult(done.returncode, done.stdout)
        assert result.code == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return result.failures["fake"].strip()

    step = "run make setup, and the ansible-playbook in .venv/bin"
    program = f"hotplug-timer is not installed beside {elsewhere}/bin/python; {step}"
    assert told("smt.hotplug.preflight") == program
    missing = "No module named 'hotplug_common'; install hotplug-acceleration beside ansible-playbook"
    assert told(str(own)) == missing


def test_playbooks_have_names_that_a_collection_can_run() -> None:
    names = [path.stem for path in (ANSIBLE / "playbooks").glob("*.yml")]
    assert names
    assert all(name.isidentifier() for name in names)


def test_it_asks_for_the_ansible_that_its_playbooks_ask_for() -> None:
    runtime = yaml.safe_load((ANSIBLE / "meta/runtime.yml").read_text())
    (play,) = (play for play in yaml.safe_load((ANSIBLE / "playbooks/have_hosts.yml").read_text()))
    assert runtime["requires_ansible"] == f">={play['tasks'][0]['vars']['have_hosts_least']}.0"
