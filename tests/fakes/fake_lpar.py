"""A fake host that whole playbooks run against: local connection, its own proc/ and sys/, its own kexec.

Playbooks run in forks of a process that has imported Ansible: see playserver.py.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from tests import FAKES as PROGRAMS
from tests import ROOT
from tests.fakes.fakehost import FakeHost

REPO = ROOT
ANSIBLE = REPO / "ansible"
FAKES = PROGRAMS / "programs"
BIN = Path(sys.executable).parent
MACHINE = os.uname().machine
#: The interpreter below the environment: it starts without looking for packages.
BASE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))
#: A host's Python; it finds no package of this environment.
PYTHON = f'#!/bin/sh\nexec {BASE_PYTHON} -S -E "$@"\n'

#: Stands in for ssh to one host: waits as long as the network would, then runs the command here.
SSH = """#!/bin/sh
{network}test ! -e {root}/down || {{ echo 'ssh: connect to host: No route to host' >&2; exit 255; }}
for command; do :; done
PATH={root}/bin:$PATH
exec /bin/sh -c "$command"
"""

#: The roles demand root, as on a real host; in a user namespace of its own, every user is.
ROOT_HERE = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
ANSIBLE_ENVIRONMENT = {
    "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_LOCALHOST_WARNING": "0",
    "LC_ALL": "C.UTF-8",
}
#: For playbooks of tests, which are nowhere near the collection.
COLLECTIONS = {"ANSIBLE_COLLECTIONS_PATH": str(ANSIBLE / "playbooks/collections")}
_shared = tempfile.TemporaryDirectory(prefix="playserver.")
#: Where playservers of this process share what they compile.
TEMPLATES = {"PLAYSERVER_TEMPLATES": f"{_shared.name}/templates"}

DEFAULT_RELEASE = "6.12-default"
DEFAULT_CMDLINE = "root=/dev/vda console=hvc0"


#: A host's variables with which it is not reached.
NOWHERE = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}

#: A task that failed, with what it told as YAML.
FAILED = re.compile(r"^(?:fatal|failed): \[([^\]\s]+)[^\]\n]*\].*=> *\n((?: .*\n)+)", re.MULTILINE)


def files_below(*folders: Path) -> dict[Path, bytes]:
    """Return the files of folders, with what is in them."""
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class PlayResult:
    """What a playbook run came to."""

    code: int
    output: str

    @property
    def flat(self) -> str:
        """The output with YAML's folding undone, for looking up messages."""
        return re.sub(r"\s+", " ", self.output)

    @property
    def failures(self) -> dict[str, str]:
        """The messages of the tasks that failed, by host."""
        told: dict[str, str] = {}
        for host, block in FAILED.findall(self.output):
            message = str(yaml.safe_load(textwrap.dedent(block)).get("msg", ""))
            told[host] = " ".join([told.get(host, ""), *message.split()])
        return told

    def changed(self, host: str = "fake") -> int:
        """The number of tasks that changed a host, as Ansible counted them."""
        found = re.search(rf"^{re.escape(host)} +:.* changed=(\d+) ", self.output, re.MULTILINE)
        assert found, self.output
        return int(found[1])


LPAR_LAB = """#!{python}
import json, shutil, sys
from pathlib import Path
work = Path({work!r})
with (work / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "build-kernel":
    print(work / "artifacts" / sys.argv[sys.argv.index("--variant") + 1] / "artifact.json")
else:
    options = dict(word.split("=") for word in sys.argv[3:])
    shutil.copytree(work / "packed" / Path(sys.argv[2]).parent.name, options["--output-dir"])
"""
"""Does what lpar-lab does: builds a variant, and packs it. Notes what it was called with."""


class FakeLpar(FakeHost):
    """A host made of files below root, and what is needed to run playbooks against it.

    `variables` go to every play, `hosts` are those of its inventory with variables of their own.
    """

    def __init__(self, root: Path, work: Path) -> None:
        super().__init__(root)
        self.work = work
        self.variables: dict[str, Any] = {}
        self.hosts: dict[str, Any] = {"fake": self.reached_locally()}
        self.others: dict[str, Any] = {}
        """Hosts of its inventory that are in no group of ours."""

    def reached_locally(self) -> dict[str, Any]:
        """Return a host's variables for a connection that is none."""
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(self.root / "bin/python3"),
        }

    def beside(self, name: str) -> FakeLpar:
        """Make another such host in the same inventory; it has its own files, and this one's programs."""
        (self.work / name).mkdir()
        other = build(self.work / name)
        self.hosts[name] = {
            **self.reached_locally(),
            "hotplug_sysroot": str(other.root),
            "ab_staging_dir": str(other.staging),
        }
        return other

    def act(self) -> FakeLpar:
        """Have it act as a kernel does, with a ppc64_cpu: a POWER host of two cores x SMT4."""
        FakeHost.build(self.root)
        self.put("proc/cmdline", DEFAULT_CMDLINE)
        self.put("proc/sys/kernel/osrelease", DEFAULT_RELEASE)
        self.add_fqs_delays()
        self.install_ppc64_cpu(path="control")
        return self

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

    def build_tool(self) -> Path:
        """Make a stand-in for lpar-lab, which finds what `packed` made and notes what it was called with."""
        tool = self.work / "lpar-lab"
        tool.write_text(LPAR_LAB.format(python=sys.executable, work=str(self.work)))
        tool.chmod(0o755)
        return tool

    def packed(self, variant: str, kind: str = "tar", **changes: str) -> Path:
        """Make what `lpar-lab package` makes of an artefact."""
        description = json.loads(self.artifact(variant, **changes).read_text())
        folder = self.work / "packed" / variant
        folder.mkdir(parents=True, exist_ok=True)
        image = folder / "vmlinux"
        shutil.copy(description["image"], image)
        (folder / "config").write_text("CONFIG_SMP=y\nCONFIG_PPC_PSERIES=y\n")
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
        self.put("etc/os-release", text)
        saved = 'custom.cfg next_entry\nset default="${saved_entry}"\n'
        config = saved if prefix == "grub" or "suse" in text else "next_entry"
        self.put(f"boot/{prefix}/grub.cfg", config)
        tools = [f"{prefix}-{tool}" for tool in ("reboot", "set-default", "editenv", "probe", "mkrelpath")]
        self.install(*tools, "dpkg", "dpkg-query", "rpm", "grubby")

    def debian(self, *releases: str) -> None:
        """Make it a Debian host with kernels installed beside the default one, each with its entry."""
        self.distribution("ID=debian\n", "grub")
        config, entries = self.get("boot/grub/grub.cfg"), {}
        for release in (DEFAULT_RELEASE, *releases):
            image = f"vmlinux-{release}"
            self.put(f"boot/{image}", release)
            config += f"\nmenuentry '{release}' --id '{release}' {{\n\tlinux /{image} {DEFAULT_CMDLINE}\n}}"
            entries[release] = {"image": f"/boot/{image}", "cmdline": DEFAULT_CMDLINE}
        self.put("boot/grub/grub.cfg", config)
        self.put("installed.json", json.dumps(entries))

    def install(self, *names: str) -> None:
        """Put fake commands on the host's PATH."""
        for name in names:
            command = self.root / "bin" / name
            command.write_text(f"#!{BASE_PYTHON} -IS\n{(FAKES / 'fake.py').read_text()}")
            command.chmod(0o755)

    def program(self, name: str, body: str) -> None:
        """Put a command on the host's PATH whose shell script is BODY."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    @property
    def waits(self) -> Path:
        """What the stand-in for ssh writes: a line when a command begins to wait, and one when it ends to."""
        return self.work / "waits"

    def remote(self, latency: float = 0) -> dict[str, Any]:
        """Make it a host that is reached by ssh; return its own variables in an inventory.

        Each command takes `latency` seconds longer; `waits` tells when which began and ended to wait.
        """
        wait = f"echo begin >> {self.waits}; sleep {latency}; echo end >> {self.waits}\n" if latency else ""
        ssh = self.root / "bin/ssh"
        ssh.write_text(SSH.format(root=self.root, network=wait))
        ssh.chmod(0o755)
        return {
            "ansible_ssh_executable": str(ssh),
            "ansible_ssh_transfer_method": "piped",
            "hotplug_sysroot": str(self.root),
            "ab_staging_dir": str(self.staging),
        }

    def play(
        self, playbook: str, *arguments: str, environment: Mapping[str, str] | None = None, **variables: Any
    ) -> PlayResult:
        """Run a playbook of ansible/playbooks, or several with a space between, against this host."""
        paths = [str(ANSIBLE / "playbooks" / name) for name in playbook.split()]
        output = self.work / "output"
        words = [*paths, *self.options(**variables), *arguments]
        code = _server().run(words, environment or self.environment(), self.work, output)
        return PlayResult(code, output.read_text())

    def time(
        self,
        output: Path,
        variant: str,
        *operations: str,
        iterations: int = 2,
        boot_method: str = "unknown",
    ) -> None:
        """Have the stand-in for hotplug-timer leave a result file, of the kernel that the host runs now."""
        output.parent.mkdir(parents=True, exist_ok=True)
        words = {
            "variant": variant,
            "iterations": iterations,
            "count-iterations": 0,
            "warmup": 0,
            "settle": 0,
            "timeout": 60,
            "boot-method": boot_method,
            "sysroot": self.root,
            "output": output,
        }
        command = [BASE_PYTHON, "-IS", str(FAKES / "timer.py"), "run", *(operations or ("smt=off", "smt=on"))]
        subprocess.run(
            [*command, *(f"--{name}={value}" for name, value in words.items())],
            check=True,
            capture_output=True,
        )

    def options(self, **variables: Any) -> list[str]:
        """Write an inventory and the variables; return what makes ansible-playbook use them."""
        vars_file = self.work / "vars.json"
        vars_file.write_text(json.dumps(self.variables | variables))
        inventory = self.work / "inventory.json"
        inventory.write_text(
            json.dumps({"smt_hosts": {"hosts": self.hosts}, "ungrouped": {"hosts": self.others}})
        )
        return ["-i", str(inventory), "-e", f"@{vars_file}"]

    def environment(self) -> dict[str, str]:
        """Return what the programs of a play find in their environment."""
        return {
            "PATH": f"{self.root / 'bin'}:{BIN}:/usr/bin:/bin",
            "HOME": str(self.work),
            "TMPDIR": str(self.work / "tmp"),
            **ANSIBLE_ENVIRONMENT,
            # Where the tools are not installed from this checkout.
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }

    def end_workers(self) -> None:
        """End the workers of a controller that was killed: each is a session of its own, and waits on."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_text()
                if "ansible-playbook" in command and str(self.work) in command:
                    os.kill(int(folder.name), signal.SIGKILL)

    def run(self, command: list[str]) -> PlayResult:
        """Run a command that runs a playbook."""
        run = subprocess.run(
            [*ROOT_HERE, *command],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.work,
        )
        return PlayResult(run.returncode, run.stdout + run.stderr)


class PlayServer:
    """A process that has imported Ansible and runs playbooks in forks of itself."""

    def __init__(self) -> None:
        self._home = tempfile.mkdtemp(prefix="playserver.")
        # Ansible reads its path of collections once.
        environment = {**os.environ, **ANSIBLE_ENVIRONMENT, **COLLECTIONS, **TEMPLATES, "HOME": self._home}
        self._process = subprocess.Popen(
            [*ROOT_HERE, sys.executable, "-m", "tests.fakes.playserver"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )

    def run(self, arguments: list[str], environment: Mapping[str, str], directory: Path, output: Path) -> int:
        """Run ansible-playbook with these arguments; returns its exit code. What it prints goes to OUTPUT."""
        job = {
            "arguments": arguments,
            "environment": dict(environment),
            "directory": str(directory),
            "output": str(output),
        }
        try:
            commands, answers = _open(self._process.stdin), _open(self._process.stdout)
            commands.write(f"{json.dumps(job)}\n")
            commands.flush()
            return int(answers.readline())
        except BaseException:
            # A test that ran out of time: what it started must not go on beside the next one.
            self.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether it can take no more jobs."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it, and what it runs."""
        if not self.ended:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


#: The one of this process, started with the first play.
_started: list[PlayServer] = []


def _server() -> PlayServer:
    if not _started:
        atexit.register(lambda: [server.close() for server in _started])
    if not _started or _started[-1].ended:
        _started.append(PlayServer())
    return _started[-1]


def build(work: Path) -> FakeLpar:
    """Make a healthy fake host with two artefacts, and variables for a short run."""
    fake = FakeLpar(work / "host", work)
    (work / "tmp").mkdir()
    fake.put("proc/cmdline", DEFAULT_CMDLINE)
    fake.put("proc/sys/kernel/osrelease", DEFAULT_RELEASE)
    fake.put("proc/sys/kernel/random/boot_id", str(uuid.uuid4()))
    fake.put("proc/sys/kernel/kexec_load_disabled", "0")
    fake.put("sys/kernel/kexec_loaded", "0")
    fake.put("sys/kernel/rcu_expedited", "0")
    fake.put("sys/devices/system/cpu/smt/control", "on")
    fake.put("sys/devices/system/cpu/present", "0-15")
    fake.put("sys/devices/system/cpu/online", "0-15")
    fake.put("default.json", json.dumps({"release": DEFAULT_RELEASE, "cmdline": DEFAULT_CMDLINE}))
    fake.put("bin/fakehost.json", json.dumps({"root": str(fake.root)}))
    python = fake.root / "bin/python3"
    python.write_text(PYTHON)
    python.chmod(0o755)
    fake.install("kexec", "systemctl", "systemd-run")
    variants = [{"name": name, "artifact": str(fake.artifact(name))} for name in ("stock", "patched")]
    fake.variables = {
        "ab_variants": variants,
        "ab_iterations": 2,
        "ab_repeat": 1,
        "ab_results_dir": str(fake.results),
        "ab_timer_bundle": str(FAKES / "timer.py"),
        "hotplug_sysroot": str(fake.root),
        "ab_staging_dir": str(fake.staging),
        "ab_poll": 1,
        # A look a second, and a list of all that there can be: two days of them take Ansible seconds to make.
        "ab_timing_timeout": 600,
        "smt_switch_poll": 1,
        "ab_kexec_delay": 0,
        "ab_reboot_delay": 0,
        "ab_boot_timeout": 5,
        "ab_answer_timeout": 5,
        "ab_down_timeout": 2,
    }
    return fake
