"""From a host's configuration to a kernel with modules and packages; the source builds in milliseconds."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from hotplug_common import arch, process
from hotplug_common.kernel import artifact, build, hostconfig, series, tree
from hotplug_common.kernel.artifact import SourceRef
from hotplug_common.kernel.hostconfig import Request
from hotplug_common.kernel.objects import Rates
from hotplug_common.kernel.source import Source
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError
from tests.hotplug_common.kernel.test_kernel import need_no_tools, ship_patch

MAKEFILE = """VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 9
EXTRAVERSION =
RELEASE = $(VERSION).$(PATCHLEVEL).$(SUBLEVEL)$(LOCALVERSION)
MODULES = $(INSTALL_MOD_PATH)/lib/modules/$(RELEASE)
olddefconfig:
\tsed -i -e '/CONFIG_GONE/d' $(O)/.config
\tgrep -q DEFAULT $(O)/.config || echo CONFIG_DEFAULT=y >> $(O)/.config
localmodconfig:
\tgrep -q '^xfs 0' $(LSMOD)
\tsed -i -e '/CONFIG_PRINTER/d' $(O)/.config
\techo 'module nvram did not have configs CONFIG_NVRAM'
\techo 'outoftree config not found!!'
\techo 'module msr did not have configs CONFIG_X86_MSR'
bzImage:
\tmkdir -p $(O)/arch/x86/boot $(O)/include/config
\techo $(RELEASE) > $(O)/include/config/kernel.release
\techo built >> $(O)/count
\tsh check
\tcat image > $(O)/arch/x86/boot/bzImage
modules:
\techo module > $(O)/xfs.ko
modules_install:
\tmkdir -p $(MODULES)/kernel
\tcp $(O)/xfs.ko $(MODULES)/kernel
\techo 'alias fs-xfs xfs' > $(MODULES)/modules.alias
\tln -s $(O) $(MODULES)/build
bindeb-pkg:
\tmkdir -p $(O)/root/DEBIAN $(O)/debian
\tprintf 'Package: linux-image-$(RELEASE)\\nVersion: $(KDEB_PKGVERSION)\\nArchitecture: amd64\\n' \\
\t\t> $(O)/root/DEBIAN/control
\tprintf 'Maintainer: a <a@example.org>\\nInstalled-Size: 3\\nDescription: x\\n' >> $(O)/root/DEBIAN/control
\tdpkg-deb --build $(O)/root $(O)/../image.deb
\techo 'image.deb kernel optional' > $(O)/debian/files
binrpm-pkg:
\tfalse
"""
GIVEN = """CONFIG_X86_64=y
CONFIG_LOCALVERSION="-vendor"
CONFIG_GONE=y
CONFIG_PRINTER=m
CONFIG_XFS_FS=m
CONFIG_DEBUG_INFO_NONE=y
"""


#: The files of the source.
FILES = {
    "Makefile": MAKEFILE,
    "image": "kernel\n",
    "check": "true\n",
    "scripts/package/kernel.spec": "Name: kernel\n",
    "Kconfig": "config PRINTER\n\ttristate\nmenuconfig XFS_FS\n\ttristate\n",
    "Kbuild": "obj-y += init.o\nobj-$(CONFIG_XFS_FS) += xfs.o\n",
}


def write_source(folder: Path, **changed: str) -> None:
    """Write the files of a source, some of them changed."""
    for name, text in (FILES | changed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def source(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Source:
    need_no_tools(monkeypatch)
    folder = paths.sources / "6.12/6.12.9-abc"
    write_source(folder / "tree")
    tree.import_tree(folder / "tree")
    return Source("6.12", SourceRef("linux-source-6.12", "6.12.9-1", "ab" * 32), "6.12.9", folder)


def change_makefile(source: Source, old: str, new: str) -> None:
    """Make the source another one, whose Makefile differs."""
    shutil.rmtree(source.tree / ".git")
    (source.tree / "Makefile").write_text(MAKEFILE.replace(old, new))
    tree.import_tree(source.tree)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    file = tmp_path / "config-vendor"
    file.write_text(GIVEN)
    return file


def planned(
    source: Source, paths: Paths, said: list[str], request: Request, variant: str = "stock"
) -> build.Plan:
    asked = hostconfig.read(request, arch.X86_64, "6.12", paths, said.append)
    patches = series.load(paths.patches, source.line, variant)
    return hostconfig.plan(asked, arch.X86_64, source, variant, paths=paths, say=said.append, patches=patches)


def test_a_kernel_of_a_hosts_configuration_has_modules_and_its_own_name(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    job = planned(source, paths, said, Request(str(given)))
    built = build.build(job, paths, said.append)
    assert built.release == f"6.12.9-smt-stock-{job.key[:8]}"
    assert (built.config_from, built.modules, built.fragments) == (str(given), "modules.tar", [])
    config = built.config.read_text()
    assert 'CONFIG_LOCALVERSION=""' in config
    assert "CONFIG_PRINTER=m" in config
    assert "CONFIG_LOCALVERSION" not in config.replace('CONFIG_LOCALVERSION=""', "").replace(
        "LOCALVERSION_AUTO", ""
    )
    with tarfile.open(built.file.parent / built.modules) as archive:
        names = {member.name.removeprefix(f"lib/modules/{built.release}") for member in archive}
        assert {member.uid for member in archive} == {0}
    assert names == {"", "/kernel", "/kernel/xfs.ko", "/modules.alias"}
    assert (built.file.parent / "modules.alias").read_text() == "alias fs-xfs xfs\n"
    assert artifact.load(built.file) == built
    changes = (built.file.parent / "config-changes.txt").read_text().splitlines()
    assert any(line.startswith('CONFIG_LOCALVERSION: "-vendor" -> "" (forced: ') for line in changes)
    assert "CONFIG_GONE: y -> n (olddefconfig: this source has no such symbol)" in changes
    again = build.build(planned(source, paths, said, Request(str(given))), paths, said.append)
    assert (again, "is in the cache" in said[-1]) == (built, True)


def test_a_configuration_without_modules_is_built_as_well(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    change_makefile(source, "\techo 'alias fs-xfs xfs' > $(MODULES)/modules.alias\n", "")
    built = build.build(planned(source, paths, said, Request(str(given))), paths, said.append)
    assert (built.file.parent / "modules.alias").read_text() == ""


def test_a_build_reports_the_modules_that_it_installs(
    source: Source, paths: Paths, said: list[str], given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a whole configuration take minutes."""
    monkeypatch.setattr(build, "PROGRESS_S", 0.0)
    monkeypatch.setattr(process, "TICK_S", 0.05)
    rule = "modules_install:\n"
    lines = "echo '  INSTALL a.ko'; echo '  INSTALL b.ko'; echo '  XZ a.ko.xz'; sleep 0.5"
    change_makefile(source, rule, f"{rule}\t{lines}\n")
    build.build(planned(source, paths, said, Request(str(given))), paths, said.append)
    assert any(line.endswith(": 2 modules installed, 1 compressed") for line in said)


def test_variants_with_one_configuration_share_objects_and_no_name(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    ship_patch(paths, "kernel", "fast kernel")
    jobs = [planned(source, paths, said, Request(str(given)), variant) for variant in ("stock", "patched")]
    built = [build.build(job, paths, said.append) for job in jobs]
    assert [one.image.read_text() for one in built] == ["kernel\n", "fast kernel\n"]
    assert jobs[0].folder == jobs[1].folder
    assert built[0].release != built[1].release
    other = planned(source, paths, said, Request(str(given), enable=("KFENCE=n",)))
    assert other.folder != jobs[0].folder


def test_trimming_leaves_out_what_is_not_used_and_says_what_is_lacking(
    source: Source, paths: Paths, said: list[str], given: Path, tmp_path: Path
) -> None:
    lsmod = tmp_path / "lsmod.txt"
    lsmod.write_text("Module Size Used by\nxfs 1 0\nnvram 1 0\noutoftree 1 0\n")
    job = planned(source, paths, said, Request(str(given), trim_to=str(lsmod)))
    assert job.host is not None
    report = hostconfig.report(job, Rates(), 2)
    assert "  1 symbols more (trimmed: no module that is kept needs it)" in report
    assert "warning: nvram is in use on the host, and CONFIG_NVRAM is not set" in report
    assert "warning: outoftree is in use on the host, and this source has no such module" in report
    assert not any("msr" in line for line in report)
    assert report[-1].startswith("1 objects in the image, 1 in 1 modules: about 1 min from clean")
    assert "CONFIG_PRINTER" not in job.host.text
    whole = planned(source, paths, said, Request(str(given)))
    assert (whole.key != job.key, whole.folder != job.folder) == (True, True)


def test_what_is_enabled_and_the_key_decide_the_kernel(
    source: Source, paths: Paths, said: list[str], given: Path, tmp_path: Path
) -> None:
    key = tmp_path / "site.pem"
    key.write_text("-----BEGIN PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n")
    plain = planned(source, paths, said, Request(str(given)))
    enabled = planned(source, paths, said, Request(str(given), enable=("KEXEC_FILE=y",)))
    signed = planned(source, paths, said, Request(str(given), sign_key=str(key)))
    key.write_text(key.read_text() + "another\n")
    resigned = planned(source, paths, said, Request(str(given), sign_key=str(key)))
    assert len({plain.key, enabled.key, signed.key, resigned.key}) == 4
    assert signed.host is not None
    assert f'CONFIG_MODULE_SIG_KEY="{key}"' in signed.host.text
    with pytest.raises(ToolError, match=r"CONFIG_GONE .*wanted y, got n") as caught:
        planned(source, paths, said, Request(str(given), enable=("GONE=y",)))
    assert caught.value.code is ExitCode.INPUT


@pytest.mark.parametrize("text", [None, "-----BEGIN CERTIFICATE-----\n"])
def test_a_key_without_its_certificate_is_refused(
    paths: Paths, said: list[str], given: Path, tmp_path: Path, text: str | None
) -> None:
    key = tmp_path / "site.pem"
    if text:
        key.write_text(text)
    with pytest.raises(ToolError, match=r"site\.pem is no PEM file with a private key") as caught:
        hostconfig.read(Request(str(given), sign_key=str(key)), arch.X86_64, "6.12", paths, said.append)
    assert caught.value.code is ExitCode.USAGE


def test_a_fragment_is_laid_over_and_the_labs_base_is_not(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    for name in ("base", "x86", "tracing"):
        (paths.patches / f"configs/{name}.config").write_text(f"CONFIG_LAB_{name.upper()}=y\n")
    job = planned(source, paths, said, Request(str(given), fragments=("tracing",)))
    assert job.host is not None
    assert "CONFIG_LAB_TRACING=y" in job.host.text
    assert "LAB_BASE" not in job.host.text
    assert "CONFIG_LAB_TRACING: n -> y (--fragment tracing)" in job.host.changes


def test_packages_are_added_to_a_kernel_that_is_in_the_cache(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    job = planned(source, paths, said, Request(str(given)))
    plain = build.build(job, paths, said.append)
    packed = build.build(job, paths, said.append, formats=["deb"])
    assert (plain.packages, packed.sha256) == ([], plain.sha256)
    (package,) = packed.packages
    assert (package.format, package.name, package.arch) == ("deb", f"linux-image-{packed.release}", "amd64")
    assert package.installed_bytes == 3 * 1024
    assert artifact.file_sha256(packed.file.parent / package.file) == package.sha256
    assert artifact.load(packed.file) == packed
    assert build.build(job, paths, said.append, formats=["deb"]) == packed
    assert "is in the cache" in said[-1]


def test_packages_that_fail_leave_the_kernel_as_it_was(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    job = planned(source, paths, said, Request(str(given)))
    with pytest.raises(ToolError, match="make binrpm-pkg failed") as caught:
        build.build(job, paths, said.append, formats=["rpm"])
    assert caught.value.code is ExitCode.INPUT
    assert artifact.load(paths.kernels / job.key).packages == []
    assert json.loads((paths.kernels / job.key / "artifact.json").read_text())["release"] == job.release


def test_a_build_that_ends_early_goes_on_where_it_was(
    source: Source, paths: Paths, said: list[str], given: Path
) -> None:
    ship_patch(paths, "true", "test -e /nowhere", "check")
    job = planned(source, paths, said, Request(str(given)), "patched")
    with pytest.raises(ToolError, match="make bzImage failed"):
        build.build(job, paths, said.append)
    objects = paths.objects / source.folder.name / job.folder
    assert (objects / "count").read_text() == "built\n"
    with pytest.raises(ToolError, match="make bzImage failed"):
        build.build(job, paths, said.append)
    assert (objects / "count").read_text() == "built\nbuilt\n"
