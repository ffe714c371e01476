"""The image for AWX: its build context, and its steps in a root that stands in for the base image."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.fakes.fake_lpar import ANSIBLE, BIN, REPO, FakeLpar

DEFINITION = ANSIBLE / "execution-environment.yml"
#: What takes a package manager for RPMs, or pip from ensurepip, which Debian's Python has not.
NOT_HERE = ("$PKGMGR", "pip_install", "install-from-bindep")
PYTHON = "/usr/bin/python3"
#: This machine's root without what was installed for Python, and with pip; changes go to `upper`.
ENTER = """set -e
cd {folder}
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
for place in /proc /dev {shared}; do mkdir -p root$place; mount --bind $place root$place; done
exec chroot root env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root {variables} sh -e -c "$1"
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ansible-builder makes of the definition."""
    folder = tmp_path_factory.mktemp("context")
    command = [str(BIN / "ansible-builder"), "create", "-f", str(DEFINITION), "-c", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return folder


def steps(context: Path) -> list[str]:
    """The steps of the image, without those of the stage that is thrown away."""
    (file,) = (path for path in context.iterdir() if path.name in ("Containerfile", "Dockerfile"))
    begin, base, _, final = re.split(r"^# .* build stage$", file.read_text(), flags=re.MULTILINE)
    return [line for line in (begin + base + final).splitlines() if line]


@pytest.mark.slow
def test_it_is_of_the_locked_versions_and_has_what_its_wheel_is_built_of(context: Path) -> None:
    locked = dict(re.findall(r"^([\w-]+)==(\S+)", (REPO / "requirements.lock").read_text(), re.MULTILINE))
    described = yaml.safe_load(DEFINITION.read_text())["dependencies"]
    pinned = [described[name]["package_pip"] for name in ("ansible_core", "ansible_runner")]
    assert pinned == [f"{name}=={locked[name]}" for name in ("ansible-core", "ansible-runner")]

    copied = context / "_build/project"
    assert (copied / "requirements.lock").read_bytes() == (REPO / "requirements.lock").read_bytes()
    project = tomllib.loads((copied / "pyproject.toml").read_text())
    assert (copied / project["project"]["readme"]).exists()
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (copied / package / "__init__.py").exists()
    assert any("install --no-cache-dir --require-hashes -r" in step for step in steps(context))


@dataclass(frozen=True)
class Image:
    """A root file system, the environment in which its programs run, and what starts them."""

    folder: Path
    environment: dict[str, str]
    entrypoint: list[str]

    def run(self, command: str, *shared: Path) -> str:
        """Run a shell command there, with folders of this machine that it may change."""
        variables = shlex.join(f"{name}={value}" for name, value in self.environment.items())
        enter = ENTER.format(folder=self.folder, shared=shlex.join(map(str, shared)), variables=variables)
        inside = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
        done = subprocess.run(
            [*inside, "sh", "-c", enter, "enter", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout


@pytest.fixture
def image(context: Path, tmp_path: Path) -> Image:
    """What the steps make of this machine's root, in place of the base image's."""
    for name in ("upper", "work", "root"):
        (tmp_path / name).mkdir()
    known = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    pip = Path(sysconfig.get_path("purelib"), "pip")
    script = [
        "rm -rf /usr/local /usr/lib/python3/dist-packages",
        f"packages=$({PYTHON} -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')",
        f"mkdir -p /usr/local/bin $packages && cp -r {pip} $packages",
        f"export PYCMD={PYTHON}; cd {context}",
    ]
    settings = {}
    entrypoint: list[str] = []
    for kind, _, rest in (step.partition(" ") for step in steps(context)):
        name, _, value = rest.partition("=")
        if kind == "COPY" and not rest.startswith("--from"):
            source, target = rest.split()
            script.append(f"mkdir -p $(dirname {target}) && cp -r {source} {target}")
        elif kind == "RUN" and not any(word in rest for word in NOT_HERE):
            script.append(f"({rest})")
        elif kind == "ARG" and value and name != "PYCMD":
            script.append(f"export {rest}")
        elif kind == "ENV":
            settings[name] = value
        elif kind == "ENTRYPOINT":
            entrypoint = json.loads(rest)
    made = Image(tmp_path, known | settings, entrypoint)
    made.run("\n".join(script), context)
    return made


@pytest.mark.slow
@pytest.mark.hosts
@pytest.mark.timeout(900)
def test_smt_fleet_checks_hosts_in_it_without_a_checkout(image: Image, host: FakeLpar) -> None:
    _, inventory, _, variables = host.options()
    check = ["smt-fleet", "check", "-i", inventory, "-e", variables, "--output-dir", "/runner/runs"]

    printed = image.run(shlex.join([*image.entrypoint, *check]), host.work)

    assert "1 ok-unchanged" in printed
