"""The image for AWX: its build context, and the image itself, built on Debian in place of AlmaLinux.

The archive of this machine's distribution is there wherever the tests run; a registry of images is not.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from hotplug_common import scratch
from hotplug_common.arch import X86_64
from hotplug_common.guest import rootfs, ssh
from hotplug_common.paths import Paths
from tests.fakes.fake_lpar import ANSIBLE, BIN, REPO, FakeLpar

DEFINITION = ANSIBLE / "execution-environment.yml"
LOCK = ANSIBLE / "execution-environment.lock"
#: The first that the mirror has whole: between two states it may lack packages of its own list.
RELEASES = ("bookworm", "trixie")
PACKAGES = ("ca-certificates", "python3-venv", "openssh-server")
KEPT_S = 7 * 24 * 3600.0
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: AWX starts a container as a user that the image does not know, of the group root.
AWX_USER = "4242:0"
#: Where the host's own root is, in the container whose sshd leads to it.
MACHINE = "/machine"
SSHD = """\
ListenAddress 127.0.0.1:{port}
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
StrictModes no
PidFile none
ForceCommand exec chroot {machine} {root}/bin/ssh "$SSH_ORIGINAL_COMMAND"
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ansible-builder makes of the definition."""
    folder = tmp_path_factory.mktemp("context")
    command = [str(BIN / "ansible-builder"), "create", "-f", str(DEFINITION), "-c", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return folder


def versions(lock: Path) -> dict[str, set[str]]:
    """Return the versions of the packages in a lock: some have one for each Python."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w-]+)==(\S+)", lock.read_text(), re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


@pytest.mark.slow
def test_it_is_of_the_locked_versions_and_has_what_its_wheel_is_built_of(context: Path) -> None:
    locked = versions(LOCK)
    assert locked.items() <= versions(REPO / "requirements.lock").items()
    described = yaml.safe_load(DEFINITION.read_text())["dependencies"]
    for name in ("ansible_core", "ansible_runner"):
        package, _, version = described[name]["package_pip"].partition("==")
        assert locked[package] == {version}

    copied = context / "_build/project"
    assert (copied / "ansible" / LOCK.name).read_bytes() == LOCK.read_bytes()
    project = tomllib.loads((copied / "pyproject.toml").read_text())
    assert (copied / project["project"]["readme"]).exists()
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (copied / package / "__init__.py").exists()
    (file,) = (path for path in context.iterdir() if path.name in ("Containerfile", "Dockerfile"))
    assert "install --no-cache-dir --require-hashes -r" in file.read_text()


@dataclass
class Buildah:
    """Images and containers in a folder of their own. A container needs root, no cgroups and no daemon."""

    folder: Path
    containers: list[str] = field(default_factory=list)

    def command(self, *words: str | Path) -> list[str]:
        stored = [f"--root={self.folder / 'stored'}", f"--runroot={self.folder / 'run'}"]
        return ["buildah", *stored, *map(str, words)]

    def __call__(self, *words: str | Path) -> str:
        # buildah makes its standard input non-blocking, which Ansible would refuse in the tests that follow.
        done = subprocess.run(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def container(self, image: str) -> str:
        """Make a container of an image; return its name."""
        self.containers.append(self("from", "--pull-never", image).split()[-1])
        return self.containers[-1]

    @staticmethod
    def inside(*shared: Path | str) -> list[str]:
        """Return the options of a command in a container which finds folders of this machine there."""
        volumes = [f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"] * CERTIFICATES.exists()
        return ["--isolation=chroot", *volumes, *(f"--volume={folder}" for folder in shared)]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Images in a folder that is gone afterwards."""
    tool = Buildah(tmp_path_factory.mktemp("images"))
    yield tool
    tool("rm", "--all")
    tool("rmi", "--all", "--force")
    shutil.rmtree(tool.folder, ignore_errors=True)


def make_debian(draft: Path) -> None:
    """Make an archive of Debian with a server for ssh, and a Python to install into, as AlmaLinux has."""
    for release in RELEASES:
        made = subprocess.run(
            [
                *("mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(PACKAGES)}"),
                "--skip=cleanup/apt/lists",
                '--customize-hook=chroot "$1" python3 -m venv --without-pip /usr/local',
                *(*rootfs.archive_options(X86_64), release, str(draft), "-"),
            ],
            input=rootfs.sources(release),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not made.returncode:
            break
        draft.unlink(missing_ok=True)
    assert made.returncode == 0, made.stdout[-4000:]


@pytest.fixture(scope="module")
def base(buildah: Buildah) -> str:
    """Debian, made anew once a week, as packages are installed into it by the lists that it has."""
    paths = Paths.from_environment()
    kept = paths.cache / f"debian-with-{'-'.join(PACKAGES)}.tar"
    if not kept.exists() or time.time() - kept.stat().st_mtime > KEPT_S:
        with scratch.folder(paths.scratch, "debian") as work:
            make_debian(work / kept.name)
            scratch.publish(work / kept.name, kept)
    empty = buildah.container("scratch")
    buildah("add", "--quiet", empty, kept, "/")
    buildah("commit", "--quiet", empty, "localhost/base:latest")
    return "localhost/base:latest"


def pip_settings() -> dict[str, str]:
    """Return the variables that have pip reach the index that it is set up for on this machine."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    # One from a file has its section, global.cert, and one from the environment has :env:.cert.
    found = re.findall(
        r"^\S+\.(cert|index-url|extra-index-url|trusted-host)='(.*)'$", listed.stdout, re.MULTILINE
    )
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in found}


@pytest.fixture(scope="module")
def image(buildah: Buildah, context: Path, base: str) -> str:
    """What the definition makes of that base, with the names that Debian has for Python and its packager."""
    names = {
        "EE_BASE_IMAGE": base,
        "PYCMD": "/usr/local/bin/python3",
        "PYPKG": "python3-venv",
        "PKGMGR": "/usr/bin/apt-get",
    }
    # The image is not kept: how pip reaches its index from here may be in it.
    variables = [f"--env={name}={value}" for name, value in pip_settings().items()]
    arguments = [f"--build-arg={name}={value}" for name, value in names.items()]
    buildah("build", "--quiet", *buildah.inside(), *variables, *arguments, "--tag=localhost/ee", context)
    return "localhost/ee"


@contextmanager
def sshd(buildah: Buildah, base: str, host: FakeLpar, keys: Path) -> Iterator[int]:
    """Run sshd in a container beside; a command that it is given runs on the fake host. Give its port."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    container = buildah.container(base)
    options = buildah.inside(f"{keys}:{keys}", f"/:{MACHINE}")
    port = ssh.choose_port(None)
    (keys / "sshd_config").write_text(SSHD.format(port=port, keys=keys, machine=MACHINE, root=host.root))
    start = f"mkdir -p /run/sshd; exec /usr/sbin/sshd -D -e -f {keys}/sshd_config"
    with subprocess.Popen(
        buildah.command("run", *options, container, "--", "sh", "-c", start),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        printed = ""
        try:
            for line in server.stdout or ():
                printed += line
                if "Server listening" in line:
                    break
            else:
                pytest.fail(f"sshd did not start: {printed}")
            yield port
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_smt_fleet_checks_a_host_over_ssh_from_the_image_as_the_user_of_awx(
    buildah: Buildah, base: str, image: str, host: FakeLpar, tmp_path: Path
) -> None:
    keys, given = tmp_path / "keys", tmp_path / "given"
    keys.mkdir()
    host.remote()
    with sshd(buildah, base, host, keys) as port:
        host.hosts = {
            "lpar1": {
                "ansible_host": "127.0.0.1",
                "ansible_port": port,
                "ansible_user": "root",
                "ansible_ssh_private_key_file": "/runner/.ssh/id_ed25519",
                "hotplug_sysroot": str(host.root),
            }
        }
        given.mkdir(mode=0o755)
        for file in (host.options()[1], keys / "user"):
            Path(shutil.copy(file, given)).chmod(0o644)
        (given / "known_hosts").write_text(f"[127.0.0.1]:{port} {(keys / 'host.pub').read_text()}")
        script = """
            mkdir -m 700 /runner/.ssh
            cp /given/known_hosts /runner/.ssh
            install -m 600 /given/user /runner/.ssh/id_ed25519
            smt-fleet check -i /given/inventory.json --for switch --output-dir /runner/runs
        """
        started = ["/opt/builder/bin/entrypoint", "dumb-init", "sh", "-e", "-c", script]
        inside = [*buildah.inside(f"{given}:/given"), "--user", AWX_USER, buildah.container(image)]
        printed = buildah("run", *inside, "--", *started)

    assert "1 ok-unchanged" in printed
