"""deploy.yml against a POWER guest: what it refuses, what comes back by itself, what it leaves, and back."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.deployment import RUNS, Deployment, ready
from tests.lab.labtools import Lab, wait_for

# Both kernels and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.hosts, pytest.mark.timeout(3600)]

GUEST = "deployed"
#: What the guest runs, and what a deployment may have left there.
ASK = (
    f"{RUNS}; find /var/lib/hotplug-acceleration /boot/hotplug-acceleration -type f 2>/dev/null | sort; true"
)


@pytest.fixture(scope="module")
def deployment(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with ready(lab, GUEST, ASK, tmp_path_factory.mktemp("kernels")) as deployment:
        yield deployment


def test_check_mode_changes_nothing(deployment: Deployment) -> None:
    before = deployment.looks()
    code, said = deployment.play("--check", "--diff")
    assert code == 0, said
    assert f"would start {deployment.release} with boot=kexec, from {deployment.default}" in said
    assert deployment.looks() == before


def test_another_image_than_was_built_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    before = deployment.looks()
    copy = tmp_path / "tampered"
    shutil.copytree(deployment.folder, copy)
    with (copy / "vmlinux").open("r+b") as image:
        image.seek(1 << 20)
        image.write(b"tampered")
    code, said = deployment.play(folder=copy)
    assert code == 2, said
    assert f"the image {copy}/vmlinux has SHA-256" in said
    assert deployment.looks() == before


def test_a_kernel_that_panics_falls_back_and_is_told_with_its_last_words(deployment: Deployment) -> None:
    deployment.falls_back_from_a_panic()


def test_a_kernel_is_left_there_once_by_one_and_rolled_back(deployment: Deployment) -> None:
    (boot_id, *before) = deployment.looks()
    first = deployment.lab.start_play("deploy.yml", GUEST, deployment.artifact())
    wait_for(lambda: "lock.json" in " ".join(deployment.looks()), 120)
    code, said = deployment.play()
    assert code == 2, said
    assert "has been using this host since" in said
    output, _ = first.communicate(timeout=900)
    assert first.returncode == 0, output[-4000:]

    (deployed, release, online, *files) = deployment.looks()
    assert deployed != boot_id
    assert [release, online] == [deployment.release, before[1]]
    assert files == ["/var/lib/hotplug-acceleration/deployed.json"]

    code, said = deployment.play()
    assert code == 0, said
    assert f"{GUEST}: runs {deployment.release} as it is" in said
    assert "changed=0 unreachable=0" in said.partition(f"{GUEST} : ")[2]
    assert deployment.looks() == [deployed, release, online, *files]

    deployment.roll_back()
    (_, *left) = deployment.looks()
    assert left == before
