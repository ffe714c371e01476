"""A fake host that whole playbooks run against: local connection, its own proc/ and sys/, its own kexec."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import FAKES as PROGRAMS
from tests import ROOT

REPO = ROOT
ANSIBLE = REPO / "ansible"
FAKES = PROGRAMS / "programs"
BIN = Path(sys.executable).parent
MACHINE = os.uname().machine

#: Stands in for ssh to one host: waits as long as the network would, then runs the command here.
SSH = """#!/bin/sh
echo begin >> {waits}; sleep {latency}; echo end >> {waits}
for command; do :; done
PATH={root}/bin:$PATH
exec /bin/sh -c "$command"
"""

DEFAULT_RELEASE = "6.12-default"
DEFAULT_CMDLINE = "root=/dev/vda console=hvc0"


@dataclass(frozen=True)
class PlayResult:
    """What a playbook run came to."""

    code: int
    output: str

    @property
    def flat(self) -> str:
        """The output with YAML's folding undone, for looking up messages."""
        return re.sub(r"\s+", " ", self.output)


@dataclass
class FakeHost:
    """A host made of files below root, and what is needed to run playbooks against it."""

    root: Path
    work: Path
    variables: dict[str, Any] = field(default_factory=dict)
    hosts: dict[str, Any] = field(default_factory=lambda: {"fake": {"ansible_connection": "local"}})

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def read(self, path: str) -> str:
        return (self.root / path).read_text().strip()

    @property
    def staging(self) -> Path:
        return self.root / "var/lib/hotplug-acceleration"

    @property
    def results(self) -> Path:
        return self.work / "results"

    def commands(self) -> list[list[str]]:
        """Every command that ran on the fake host, in order."""
        log = self.root / "commands.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def artifact(self, variant: str, **changes: str) -> Path:
        """Make an artefact whose image, for the fake kexec, is the release that it boots."""
        directory = self.work / "artifacts" / variant
        directory.mkdir(parents=True, exist_ok=True)
        image = directory / "vmlinux"
        release = changes.pop("boots", f"6.12-{variant}")
        image.write_text(release)
        description = {
            "schema": "lpar-lab/kernel/1",
            "arch": MACHINE,
            "release": f"6.12-{variant}",
            "image": str(image),
            "sha256": hashlib.sha256(image.read_bytes()).hexdigest(),
        }
        path = directory / "artifact.json"
        path.write_text(json.dumps(description | changes))
        return path

    def packed(self, variant: str, kind: str = "tar", **changes: str) -> Path:
        """Make what `lpar-lab package` makes of an artefact."""
        description = json.loads(self.artifact(variant, **changes).read_text())
        folder = self.work / "packed" / variant
        folder.mkdir(parents=True, exist_ok=True)
        image = folder / "vmlinux"
        shutil.copy(description["image"], image)
        (folder / "config").write_text("CONFIG_SMP=y\n")
        name = f"linux-hotplug-acceleration-{description['release']}"
        package = folder / f"{name}.pkg"
        with tarfile.open(package, "w:gz") as archive:
            for path in (image, folder / "config"):
                archive.add(path, f"boot/hotplug-acceleration/{description['release']}/{path.name}")
        description |= {
            "variant": variant,
            "image": image.name,
            "package": {
                "format": kind,
                "name": name,
                "file": package.name,
                "sha256": hashlib.sha256(package.read_bytes()).hexdigest(),
                "arch": MACHINE,
            },
        }
        path = folder / "artifact.json"
        path.write_text(json.dumps(description))
        return path

    def distribution(self, text: str, prefix: str) -> None:
        """Make it a host of a distribution, with GRUB and the package managers of all of them."""
        self.write("etc/os-release", text)
        saved = 'custom.cfg next_entry\nset default="${saved_entry}"\n'
        config = saved if prefix == "grub" or "suse" in text else "next_entry"
        self.write(f"boot/{prefix}/grub.cfg", config)
        tools = [f"{prefix}-{tool}" for tool in ("reboot", "set-default", "editenv", "probe", "mkrelpath")]
        self.install(*tools, "dpkg", "dpkg-query", "rpm", "grubby")

    def install(self, *names: str) -> None:
        """Put fake commands on the host's PATH."""
        for name in names:
            command = self.root / "bin" / name
            shutil.copy(FAKES / "fake.py", command)
            command.write_text(f"#!{sys.executable} -IS\n{command.read_text()}")
            command.chmod(0o755)

    @property
    def waits(self) -> Path:
        """What the stand-in for ssh writes: a line when a command begins to wait, and one when it ends to."""
        return self.work / "waits"

    def remote(self, latency: float = 0) -> dict[str, Any]:
        """Make it a host that is reached by ssh; return its own variables in an inventory.

        Each command takes `latency` seconds longer; `waits` tells when which began and ended to wait.
        """
        ssh = self.root / "bin/ssh"
        ssh.write_text(SSH.format(latency=latency, root=self.root, waits=self.waits))
        ssh.chmod(0o755)
        return {
            "ansible_ssh_executable": str(ssh),
            "ansible_ssh_transfer_method": "piped",
            "ab_sysroot": str(self.root),
            "ab_staging_dir": str(self.staging),
        }

    def play(self, playbook: str, *arguments: str, **variables: Any) -> PlayResult:
        """Run a playbook of ansible/playbooks, or several with a space between, against this host."""
        paths = [str(ANSIBLE / "playbooks" / name) for name in playbook.split()]
        return self.run([str(BIN / "ansible-playbook"), *paths, *self.options(**variables), *arguments])

    def options(self, **variables: Any) -> list[str]:
        """Write an inventory and the variables; return what makes ansible-playbook use them."""
        vars_file = self.work / "vars.json"
        vars_file.write_text(json.dumps(self.variables | variables))
        inventory = self.work / "inventory.json"
        inventory.write_text(json.dumps({"smt_hosts": {"hosts": self.hosts}}))
        return ["-i", str(inventory), "-e", f"@{vars_file}"]

    def run(self, command: list[str]) -> PlayResult:
        """Run a command that runs a playbook."""
        # The roles demand root, as on a real host; in a user namespace of its own, anybody is.
        root = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
        environment = {
            "PATH": f"{self.root / 'bin'}:{BIN}:/usr/bin:/bin",
            "HOME": str(self.work),
            "TMPDIR": str(self.work / "tmp"),
            "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "LC_ALL": "C.UTF-8",
            # Where the tools are not installed from this checkout.
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        run = subprocess.run(
            [*root, *command], env=environment, capture_output=True, text=True, check=False, cwd=self.work
        )
        return PlayResult(run.returncode, run.stdout + run.stderr)


def build(work: Path) -> FakeHost:
    """Make a healthy fake host with two artefacts, and variables for a short run."""
    fake = FakeHost(work / "host", work)
    (work / "tmp").mkdir()
    fake.write("proc/cmdline", f"{DEFAULT_CMDLINE}\n")
    fake.write("proc/sys/kernel/osrelease", f"{DEFAULT_RELEASE}\n")
    fake.write("proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
    fake.write("proc/sys/kernel/kexec_load_disabled", "0\n")
    fake.write("sys/kernel/kexec_loaded", "0\n")
    fake.write("sys/kernel/rcu_expedited", "0\n")
    fake.write("sys/devices/system/cpu/smt/control", "on\n")
    fake.write("sys/devices/system/cpu/present", "0-15\n")
    fake.write("sys/devices/system/cpu/online", "0-15\n")
    fake.write("default.json", json.dumps({"release": DEFAULT_RELEASE, "cmdline": DEFAULT_CMDLINE}))
    fake.write("bin/fakehost.json", json.dumps({"root": str(fake.root)}))
    fake.install("kexec", "systemctl", "systemd-run")
    variants = [{"name": name, "artifact": str(fake.artifact(name))} for name in ("stock", "patched")]
    fake.variables = {
        "ab_variants": variants,
        "ab_iterations": 2,
        "ab_results_dir": str(fake.results),
        "ab_timer_bundle": str(FAKES / "timer.py"),
        "ab_sysroot": str(fake.root),
        "ab_staging_dir": str(fake.staging),
        "ab_poll": 1,
        "ab_kexec_delay": 0,
        "ab_reboot_delay": 0,
        "ab_boot_timeout": 5,
        "ab_answer_timeout": 5,
        "ab_down_timeout": 2,
    }
    return fake
