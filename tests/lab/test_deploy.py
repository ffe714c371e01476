"""deploy.yml against a POWER guest: what it refuses, what comes back by itself, what it leaves, the way back.

One thread per core: a guest with more may stay silent after a panic (docs/lpar-lab.md, Troubleshooting).
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from labtools import Lab, wait_for

# Both kernels and the base disk may have to be built first.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

GUEST = "deployed"
#: What the guest runs, and what a deployment may have left there.
ASK = (
    "cat /proc/sys/kernel/random/boot_id; uname -r; cat /sys/devices/system/cpu/online;"
    " find /var/lib/smt-ab /boot/smt-ab -type f 2>/dev/null | sort; true"
)


@dataclass(frozen=True)
class Deployment:
    """A guest, the kernel that it boots by default, and the one to deploy."""

    lab: Lab
    folder: Path
    default: str
    release: str

    def play(self, *options: str, folder: Path | None = None, **variables: object) -> tuple[int, str]:
        """Deploy; return the exit code and the output without YAML's folding."""
        artifact = {"deploy_artifact": str((folder or self.folder) / "artifact.json")}
        done = self.lab.play("deploy.yml", GUEST, artifact | variables, *options)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def looks(self) -> list[str]:
        return self.lab.must("ssh", GUEST, "--", ASK, timeout=300).split()


@pytest.fixture(scope="module")
def deployment(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    built = lab.must("build-kernel", "--variant", "patched", "--print-artifact", timeout=2400).strip()
    folder = tmp_path_factory.mktemp("kernels") / "patched"
    lab.must("package", built, "--format", "deb", "--output-dir", folder)
    lab.must("up", GUEST, "--cores", "2", "--threads", "1", timeout=2400)
    default = lab.must("ssh", GUEST, "--", "uname -r").strip()
    yield Deployment(lab, folder, default, json.loads((folder / "artifact.json").read_text())["release"])
    lab.must("down", GUEST)


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
    (boot_id, *before) = deployment.looks()
    code, said = deployment.play(deploy_append="init=/nowhere")
    assert code == 2, said
    assert f"wanted {deployment.release} with patched variant, found {deployment.default} with no" in said
    ending = said.partition("Its console ended with: ")[2]
    assert "Kernel panic - not syncing: Requested init /nowhere failed" in ending
    assert f"The host is back on {deployment.default} with SMT as it was" in ending
    (after, *left) = deployment.looks()
    assert after != boot_id
    assert left == before


def test_a_kernel_is_left_there_once_by_one_and_rolled_back(deployment: Deployment) -> None:
    (boot_id, *before) = deployment.looks()
    first = deployment.lab.start_play(
        "deploy.yml", GUEST, {"deploy_artifact": str(deployment.folder / "artifact.json")}
    )
    wait_for(lambda: "lock.json" in " ".join(deployment.looks()), 120)
    code, said = deployment.play()
    assert code == 2, said
    assert "has been using this host since" in said
    output, _ = first.communicate(timeout=900)
    assert first.returncode == 0, output[-4000:]

    (deployed, release, online, *files) = deployment.looks()
    assert deployed != boot_id
    assert [release, online] == [deployment.release, before[1]]
    assert files == ["/var/lib/smt-ab/deployed.json"]

    code, said = deployment.play()
    assert code == 0, said
    assert f"{GUEST}: runs {deployment.release} as it is" in said
    assert "changed=0 unreachable=0" in said.partition(f"{GUEST} : ")[2]
    assert deployment.looks() == [deployed, release, online, *files]

    done = deployment.lab.play("rollback.yml", GUEST, {})
    assert done.returncode == 0, done.stdout[-4000:]
    (_, *left) = deployment.looks()
    assert left == before
