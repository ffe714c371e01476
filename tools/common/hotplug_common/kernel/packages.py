"""Packages by kbuild's own targets, bindeb-pkg and binrpm-pkg: image, modules, configuration, and headers.

Unlike those of `lpar-lab package` they install as any kernel of a distribution does: with an initial RAM disk
and a boot entry, by the hooks of the host.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotplug_common import process
from hotplug_common.kernel import artifact
from hotplug_common.kernel.artifact import Package
from hotplug_common.kernel.kbuild import Make
from hotplug_common.needs import Need
from hotplug_host.errors import ExitCode, ToolError

NO_HEADERS = "pkg.linux-upstream.nokernelheaders"
"""A cross build cannot make them: kbuild would compile their scripts for the host, with its libraries."""
SPEC = "scripts/package/kernel.spec"


@dataclass(frozen=True)
class Format:
    """How kbuild makes packages of one kind, and where they are then; `describe` asks the package itself."""

    needs: tuple[Need, ...]
    make: Callable[[Make, str], list[Path]]
    query: tuple[str, ...]


def needs(formats: Sequence[str]) -> list[Need]:
    """Return what making packages of these kinds needs on this machine."""
    return [need for kind in formats for need in FORMATS[kind].needs]


def make(kbuild: Make, kind: str, fresh: Path) -> list[Package]:
    """Make the packages of a kind, and move them to FRESH.

    Those of C headers (linux-libc-dev, kernel-headers) are left out: they would take the place of the
    distribution's.

    Raises ToolError (INPUT) where kbuild fails, or makes none.
    """
    form = FORMATS[kind]
    release = (kbuild.objects / "include/config/kernel.release").read_text().strip()
    found = []
    for file in form.make(kbuild, release):
        package = _describe(kind, form, file)
        if release in package.name and not package.name.endswith("-headers"):
            shutil.move(file, fresh / file.name)
            found.append(package)
    if not found:
        raise ToolError(f"{kbuild.title}: no {kind} package was made", f"see {kbuild.log}", ExitCode.INPUT)
    return found


def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Give a member of a tarball to root."""
    member.uid, member.gid, member.uname, member.gname = 0, 0, "root", "root"
    return member


def _describe(kind: str, form: Format, file: Path) -> Package:
    result = process.run([word.replace("FILE", str(file)) for word in form.query], merge_errors=False)
    words = result.output.split()
    if result.returncode != 0 or len(words) != 3:
        raise ToolError(
            f"{file.name}: its fields cannot be read: {process.last_line(result.errors)}", code=ExitCode.INPUT
        )
    size = int(words[2]) * (1024 if kind == "deb" else 1)
    return Package(kind, words[0], file.name, artifact.file_sha256(file), words[1], size)


def _deb(kbuild: Make, release: str) -> list[Path]:
    """Make debs; they come to lie beside the object folder, and debian/files in it has their names."""
    version = release.removesuffix(kbuild.local_version)
    profiles = "" if kbuild.arch.native else f"cross {NO_HEADERS}"
    # The revision is what the image has as its build's number: with another, kbuild would link it anew.
    settings = {
        "KDEB_PKGVERSION": f"{version.replace('-rc', '~rc')}-1",
        "DPKG_FLAGS": "-d",
        "DEB_BUILD_PROFILES": profiles,
    }
    kbuild.make("bindeb-pkg", *_words(settings))
    named = (kbuild.objects / "debian/files").read_text().split()
    return [kbuild.objects.parent / name for name in named if name.endswith(".deb")]


def _rpm(kbuild: Make, release: str) -> list[Path]:
    """Make rpms, whose names have the release, as those of debs.

    kbuild calls them as Red Hat calls its own, `kernel`: an update by rpm would remove the one for the other.
    """
    top = kbuild.objects / "rpmbuild"
    shutil.rmtree(top, ignore_errors=True)
    spec = kbuild.source / SPEC
    given = spec.read_text()
    named, count = re.subn(
        r"^(Name: |%description -n )kernel\b", rf"\1kernel-{release}", given, flags=re.MULTILINE
    )
    if not count:
        raise ToolError(f"{spec} does not name its package", f"see {kbuild.log}", ExitCode.INPUT)
    spec.write_text(named)
    try:
        kbuild.make("binrpm-pkg")
    finally:
        spec.write_text(given)
    return sorted(top.glob("RPMS/*/*.rpm"))


def _words(settings: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


FORMATS: dict[str, Format] = {
    "deb": Format(
        (Need("dpkg-buildpackage", "dpkg-dev"), Need("dh_prep", "debhelper"), Need("rsync", "rsync")),
        _deb,
        ("dpkg-deb", "--show", "--showformat=${Package} ${Architecture} ${Installed-Size}", "FILE"),
    ),
    "rpm": Format(
        (Need("rpmbuild", "rpm"), Need("rsync", "rsync")),
        _rpm,
        ("rpm", "--query", "--package", "--queryformat=%{NAME} %{ARCH} %{SIZE}", "FILE"),
    ),
}
