"""A built kernel as a folder that travels: image, configuration, a package, their digests, and artifact.json.

The package puts everything below /boot/hotplug-acceleration/RELEASE, where no boot loader's generator looks
for kernels. Modules, if the kernel has any, go below /lib/modules/RELEASE, and the configuration of such a
kernel also where the host's tools for initial RAM disks read it. It runs no script: installing it
makes no boot entry and moves no default. The playbook deploy.yml does that.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from hotplug_common import needs as preflight
from hotplug_common import process, scratch
from hotplug_common.arch import by_name
from hotplug_common.kernel import artifact
from hotplug_common.kernel.artifact import Artifact, Package
from hotplug_common.kernel.build import ALIASES
from hotplug_common.kernel.packages import owned_by_root
from hotplug_common.needs import Need
from hotplug_host.agent.distribution import FOLDER, Folders
from hotplug_host.errors import ExitCode, ToolError

NAME = "linux-hotplug-acceleration"
SUMMARY = "Linux kernel under test"
SUMS = "SHA256SUMS"
MAINTAINER = "lpar-lab <lpar-lab@localhost>"
LICENSE = "GPL-2.0-only"


@dataclass(frozen=True)
class Format:
    """How a package of one kind is made, of a folder that holds the files as they go below the root."""

    needs: tuple[Need, ...]
    make: Callable[[Artifact, Path, Path], Package]


def pack(kernel: Artifact, kind: str, output: Path) -> Path:
    """Make the folder `output` with a package of this kind; return the path of its artifact.json.

    Raises ToolError: USAGE for an output that is there already, INPUT for an image whose digest is not the
    artefact's, ENVIRONMENT when a tool is missing or fails.
    """
    form = FORMATS[kind]
    preflight.require(form.needs)
    if output.exists():
        raise ToolError(f"{output} exists already", "name a folder to be made", ExitCode.USAGE)
    if artifact.file_sha256(kernel.image) != kernel.sha256:
        raise ToolError(
            f"{kernel.image} has not the digest that {kernel.file} says",
            "build the kernel again",
            ExitCode.INPUT,
        )
    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.absolute().parent) as folder:
        work = Path(folder)
        finished = work / "finished"
        finished.mkdir()
        shutil.copyfile(kernel.image, finished / kernel.image.name)
        shutil.copyfile(kernel.config, finished / "config")
        if kernel.modules:
            shutil.copyfile(kernel.file.parent / ALIASES, finished / ALIASES)
        root = work / "root"
        _lay_out(kernel, root)
        made = form.make(kernel, root, finished)
        (finished / artifact.FILE).write_text(_description(kernel, made))
        names = sorted(path.name for path in finished.iterdir())
        sums = [f"{artifact.file_sha256(finished / name)}  {name}\n" for name in names]
        (finished / SUMS).write_text("".join(sums))
        scratch.publish(finished, output)
    return output / artifact.FILE


def package_name(kernel: Artifact) -> str:
    """Return the name a package manager knows the kernel by: its release, in what all of them allow."""
    return f"{NAME}-{kernel.release.lower().replace('_', '-')}"


def _lay_out(kernel: Artifact, root: Path) -> None:
    """Put image, configuration and description below `root` as they go onto the host."""
    place = Folders(root, kernel.release)
    folder = place.kernel
    folder.mkdir(parents=True)
    shutil.copyfile(kernel.image, folder / kernel.image.name)
    shutil.copyfile(kernel.config, folder / "config")
    (folder / artifact.FILE).write_text(_description(kernel))
    if kernel.modules:
        # mkinitramfs looks there which compression the kernel knows.
        shutil.copyfile(kernel.config, place.config)
        _run(["tar", "-x", "--no-same-owner", "-f", kernel.file.parent / kernel.modules, "-C", root])
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _description(kernel: Artifact, package: Package | None = None) -> str:
    """Return artifact.json with names that are relative to it, and what is said of the package."""
    own = {"image": kernel.image.name, "config": "config", "modules": "", "packages": []}
    fields = json.loads(kernel.to_json()) | own
    return json.dumps(fields | ({"package": asdict(package)} if package else {}), indent=2) + "\n"


def _version(kernel: Artifact) -> str:
    """Return the kernel's version, the release up to its first dash, and when it was built."""
    built = datetime.fromisoformat(kernel.built).strftime("%Y%m%d%H%M%S")
    return f"{kernel.release.split('-')[0]}-{built}"


def _made(kernel: Artifact, root: Path, kind: str, file: Path, arch: str) -> Package:
    installed = sum(path.stat().st_size for path in (root / "boot").rglob("*") if path.is_file())
    return Package(kind, package_name(kernel), file.name, artifact.file_sha256(file), arch, installed)


def _tar(kernel: Artifact, root: Path, output: Path) -> Package:
    """Pack a tarball, owned by root and with the time of the build, so that two packings are alike."""
    file = output / f"{package_name(kernel)}.{kernel.arch}.tar.gz"
    when = int(datetime.fromisoformat(kernel.built).timestamp())

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = when
        return owned_by_root(member)

    with tarfile.open(file, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        # Not from the root on: /lib may be a link on the host, and is to stay one.
        place = Folders(root, kernel.release)
        for path in (place.kernel.parent, place.config, place.modules):
            if path.exists():
                archive.add(path, path.relative_to(root), filter=plain)
    return _made(kernel, root, "tar", file, kernel.arch)


def _deb(kernel: Artifact, root: Path, output: Path) -> Package:
    arch = by_name(kernel.arch).debian
    file = output / f"{package_name(kernel)}_{_version(kernel)}_{arch}.deb"
    control = root / "DEBIAN/control"
    control.parent.mkdir()
    fields = {
        "Package": package_name(kernel),
        "Version": _version(kernel),
        "Architecture": arch,
        "Maintainer": MAINTAINER,
        "Section": "kernel",
        "Priority": "optional",
        "Description": f"{SUMMARY}, {kernel.release}",
    }
    control.write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))
    control.chmod(0o644)
    control.parent.chmod(0o755)
    _run(["dpkg-deb", "--root-owner-group", "--build", root, file])
    return _made(kernel, root, "deb", file, arch)


def _rpm(kernel: Artifact, root: Path, output: Path) -> Package:
    arch = kernel.arch
    version, _, release = _version(kernel).partition("-")
    place = Folders(Path("/"), kernel.release)
    modules = f"{place.config}\n{place.modules}\n" if kernel.modules else ""
    spec = root.parent / "package.spec"
    spec.write_text(
        f"Name: {package_name(kernel)}\nVersion: {version}\nRelease: {release}\nSummary: {SUMMARY}\n"
        f"License: {LICENSE}\nAutoReqProv: no\n"
        f"%description\n{SUMMARY}, {kernel.release}.\n"
        f'%install\ncp -a "{root}/." "%{{buildroot}}"\n'
        f"%files\n%defattr(-,root,root,-)\n%dir {FOLDER}\n"
        f"%dir {place.kernel}\n{place.kernel}/*\n{modules}"
    )
    top = root.parent / "rpmbuild"
    # Nothing looks into the image: no digest of its build, no stripping, no debug package.
    settings = {
        "_topdir": top,
        "_rpmdir": top / "RPMS",
        "_rpmfilename": "package.rpm",
        "_build_id_links": "none",
        "debug_package": "%{nil}",
        "__os_install_post": "%{nil}",
        "_binary_payload": "w3.gzdio",
    }
    defines = [word for key, value in settings.items() for word in ("--define", f"{key} {value}")]
    _run(["rpmbuild", "-bb", "--quiet", f"--target={arch}-linux", *defines, spec])
    file = output / f"{package_name(kernel)}-{version}-{release}.{arch}.rpm"
    shutil.copyfile(top / "RPMS/package.rpm", file)
    return _made(kernel, root, "rpm", file, arch)


def _run(command: Sequence[str | Path]) -> None:
    result = process.run(command)
    if result.returncode != 0:
        raise ToolError(
            f"{command[0]} failed: {process.last_line(result.output)}",
            "check the free disk space, then try again",
            ExitCode.ENVIRONMENT,
        )


FORMATS: dict[str, Format] = {
    "tar": Format((), _tar),
    "deb": Format((Need("dpkg-deb", "dpkg"),), _deb),
    "rpm": Format((Need("rpmbuild", "rpm"),), _rpm),
}
