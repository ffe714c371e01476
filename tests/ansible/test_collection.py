"""ansible/ as a collection: built, installed, and its playbooks run by name."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.fakes.fake_lpar import ANSIBLE, BIN, ROOT_HERE, FakeLpar

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


@pytest.mark.slow
def test_playbooks_run_by_their_names_from_the_installed_collection(host: FakeLpar, tmp_path: Path) -> None:
    collections = tmp_path / "collections"
    run(tmp_path, "ansible-galaxy", "collection", "build", str(ANSIBLE), "--output-path", str(tmp_path))
    archive = tmp_path / f"smt-hotplug-{GALAXY['version']}.tar.gz"
    with tarfile.open(archive) as packed:
        names = set(packed.getnames())
    assert {"playbooks/apply.yml", "roles/deploy/tasks/main.yml", "plugins/callback/smt_fleet.py"} <= names
    assert not [name for name in names if name.startswith("molecule") or name.endswith(".pyc")]
    run(
        tmp_path, "ansible-galaxy", "collection", "install", "--offline", str(archive), "-p", str(collections)
    )

    environment = {**host.environment(), "ANSIBLE_COLLECTIONS_PATH": str(collections), "PWD": str(tmp_path)}
    del environment["ANSIBLE_CONFIG"]
    printed = run(
        tmp_path,
        str(BIN / "ansible-playbook"),
        *host.options(preflight_purpose="time"),
        "smt.hotplug.preflight",
        **environment,
    )

    assert "| fake | go |" in printed
    assert (tmp_path / "preflight/preflight.json").exists()


def test_playbooks_have_names_that_a_collection_can_run() -> None:
    names = [path.stem for path in (ANSIBLE / "playbooks").glob("*.yml")]
    assert names
    assert all(name.isidentifier() for name in names)


def test_it_asks_for_the_ansible_that_its_playbooks_ask_for() -> None:
    runtime = yaml.safe_load((ANSIBLE / "meta/runtime.yml").read_text())
    (play,) = (play for play in yaml.safe_load((ANSIBLE / "playbooks/have_hosts.yml").read_text()))
    assert runtime["requires_ansible"] == f">={play['tasks'][0]['vars']['have_hosts_least']}.0"
