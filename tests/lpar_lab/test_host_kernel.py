"""The commands of the page on kernels of a host's configuration, as they stand there.

The source builds in milliseconds, and the host is a stand-in for ssh. rpm's own tools make the packages.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import tarfile
from pathlib import Path

import pytest

from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode
from lpar_lab import cli
from tests import ROOT
from tests.hotplug_common.kernel.test_hostconfig import MAKEFILE, write_source
from tests.hotplug_common.kernel.test_kernel import need_no_tools, ship_patch
from tests.hotplug_common.kernel.test_origin import fake_ssh
from tests.samples.kernellines import write_branch

PAGE = ROOT / "docs/guides/operators/host-kernel.md"
COMMANDS = list(dict.fromkeys(re.findall(r"^lpar-lab (build-kernel .*)$", PAGE.read_text(), re.MULTILINE)))
HOST = """case "$*" in
*lsmod*) echo 'Module Size Used by'; echo 'xfs 1 0'; echo pci:v1; echo xfs;;
*) printf 'CONFIG_%s\\n' PPC64=y CPU_LITTLE_ENDIAN=y DEBUG_INFO_NONE=y XFS_FS=m PRINTER=m;;
esac"""
#: Of a file that is no ELF file; the words are those of build.py.
STRIP = '#!/bin/sh\ncp "$4" "$3"\n'
#: The cross build's image, and a package by rpm as kbuild makes it.
PPC = (
    (
        "bzImage:\n\tmkdir -p $(O)/arch/x86/boot $(O)/include/config",
        "vmlinux:\n\tmkdir -p $(O)/include/config",
    ),
    ("$(O)/arch/x86/boot/bzImage", "$(O)/vmlinux"),
    (
        "binrpm-pkg:\n\tfalse\n",
        "binrpm-pkg:\n"
        "\tsed 's/^Version: .*/Version: $(subst -,_,$(RELEASE))/'"
        " scripts/package/kernel.spec > $(O)/kernel.spec\n"
        "\trpmbuild -bb --target ppc64le-linux --define '_topdir $(O)/rpmbuild' $(O)/kernel.spec\n",
    ),
)
SPEC = """Name: kernel
Version: RELEASE
Release: 1
Summary: x
License: GPL
%description
x
%package headers
Summary: x
Obsoletes: kernel-headers < %{version}
%description headers
x
%install
mkdir -p %{buildroot}/boot
echo kernel > %{buildroot}/boot/vmlinux
%files
/boot/vmlinux
%files headers
"""


@pytest.fixture(autouse=True)
def own_folders(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.Paths, "from_environment", lambda: paths)
    need_no_tools(monkeypatch)
    strip = fake_ssh(tmp_path, monkeypatch, HOST).with_name("bin") / "powerpc64le-linux-gnu-strip"
    strip.write_text(STRIP)
    strip.chmod(0o755)
    write_branch(paths.patches, "6.12.0", "6.12")
    for where in ("hotplug/6.12", "hotplug/branches/6.12.0"):
        ship_patch(paths, "kernel", "fast kernel", where=where)


def pack_source(folder: Path, sublevel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a tarball take the place of Debian's source, as the page tells."""
    makefile = MAKEFILE.replace("SUBLEVEL = 9", f"SUBLEVEL = {sublevel}")
    for old, new in PPC:
        assert old in makefile
        makefile = makefile.replace(old, new)
    tree = folder / "linux"
    write_source(tree, **{"Makefile": makefile, "scripts/package/kernel.spec": SPEC})
    tarball = folder / "linux.tar.xz"
    with tarfile.open(tarball, "w:xz") as archive:
        archive.add(tree, "linux")
    monkeypatch.setenv("LPAR_LAB_SOURCE_URL", f"file://{tarball}")
    monkeypatch.setenv("LPAR_LAB_SOURCE_SHA256", hashlib.sha256(tarball.read_bytes()).hexdigest())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs_as_it_is(
    paths: Paths,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    pack_source(tmp_path, 0 if "--line 6.12.0" in command else 9, monkeypatch)

    assert cli.main(shlex.split(command)) == ExitCode.OK

    written = capsys.readouterr()
    if "--plan-only" in command:
        assert re.fullmatch(r"6\.12\.9-smt-stock-[0-9a-f]{8}", written.out.strip())
        assert "1 symbols more (trimmed: no module that is kept needs it)" in written.err
        assert not list(paths.kernels.glob("*"))
        return
    (built,) = paths.kernels.glob("*/artifact.json")
    record = json.loads(built.read_text())
    assert (str(built) if "--print-artifact" in command else record["release"]) in written.out
    packages = [(one["format"], one["name"], one["arch"]) for one in record["packages"]]
    assert packages == [("rpm", f"kernel-{record['release']}", "ppc64le")] * ("--package rpm" in command)
    spec = next(paths.sources.glob("*/*/tree")) / "scripts/package/kernel.spec"
    assert "Name: kernel\n" in spec.read_text()
    assert ("-patched-" in record["release"]) == ("--variant patched" in command)
    assert ("PRINTER" not in built.with_name("config").read_text()) == ("--trim-to" in command)


def test_the_page_has_a_plan_three_builds_and_one_of_a_branch() -> None:
    assert len(COMMANDS) == 5
    assert sum("--plan-only" in command for command in COMMANDS) == 1
