"""A guest and a kernel that deploy.yml puts on it, for tests of what it does by kexec and by a boot loader.

One thread per core: a guest with more may stay silent after a panic (see Problems in the lab's guide).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.labtools import BOOT_ID, Lab

RUNS = f"{BOOT_ID}; uname -r; cat /sys/devices/system/cpu/online"
"""What a guest runs. It goes first in what a Deployment looks at."""


@dataclass(frozen=True)
class Deployment:
    """A guest, the kernel that it boots by default, and the one to deploy.

    `ask` is the command that tells what the guest runs (RUNS) and what a deployment may have left there.
    """

    lab: Lab
    guest: str
    ask: str
    folder: Path
    default: str
    release: str

    def ssh(self, command: str) -> str:
        return self.lab.must("ssh", self.guest, "--", command, timeout=300)

    def artifact(self, folder: Path | None = None) -> dict[str, object]:
        """The variables of the kernel to deploy, or of a copy of it in `folder`."""
        return {"deploy_artifact": str((folder or self.folder) / "artifact.json")}

    def play(self, *options: str, folder: Path | None = None, **variables: object) -> tuple[int, str]:
        """Deploy; return the exit code and the output without YAML's folding."""
        done = self.lab.play("deploy.yml", self.guest, self.artifact(folder) | variables, *options)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def roll_back(self) -> None:
        done = self.lab.play("rollback.yml", self.guest, {})
        assert done.returncode == 0, done.stdout[-4000:]

    def looks(self) -> list[str]:
        return self.ssh(self.ask).split()

    def falls_back_from_a_panic(self, **variables: object) -> None:
        """Deploy a kernel that finds no init; what is told of it, and that the guest is as it was."""
        (boot_id, *before) = self.looks()
        code, said = self.play(deploy_append="init=/nowhere", **variables)
        assert code == 2, said
        assert f"wanted {self.release} with patched variant, found {self.default} with no" in said
        ending = said.partition("Its console ended with: ")[2]
        assert "Kernel panic - not syncing: Requested init /nowhere failed" in ending
        assert f"The host is back on {self.default} with SMT as it was" in ending
        (after, *left) = self.looks()
        assert after != boot_id
        assert left == before


@contextmanager
def ready(lab: Lab, guest: str, ask: str, kernels: Path, *up: str) -> Iterator[Deployment]:
    """A guest, brought up with the words `up` beside its name and shape, and the packaged patched kernel."""
    built = lab.must("build-kernel", "--variant", "patched", "--print-artifact", timeout=2400).strip()
    folder = kernels / "patched"
    lab.must("package", built, "--format", "deb", "--output-dir", folder)
    lab.must("up", guest, "--cores", "2", "--threads", "1", *up, timeout=2400)
    default = lab.must("ssh", guest, "--", "uname -r").strip()
    release = json.loads((folder / "artifact.json").read_text())["release"]
    yield Deployment(lab, guest, ask, folder, default, release)
    lab.must("down", guest)
