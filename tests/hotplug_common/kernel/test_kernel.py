import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_common import arch
from hotplug_common.kernel import artifact, build, config, series, source, tree
from hotplug_common.kernel.artifact import SourceRef
from hotplug_common.kernel.config import Fragment
from hotplug_common.kernel.series import Patch
from hotplug_common.kernel.source import Source
from hotplug_common.paths import Paths
from hotplug_host.errors import ExitCode, ToolError
from tests.samples.kernellines import write_line

FAKE_MAKEFILE = """VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 9
EXTRAVERSION =
allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) $(O)/.config
olddefconfig:
\tsed -i -e '/CONFIG_GONE/d' $(O)/.config
bzImage:
\tmkdir -p $(O)/arch/x86/boot $(O)/include/config
\techo $(VERSION).$(PATCHLEVEL).$(SUBLEVEL)$(LOCALVERSION)$(SUFFIX) > $(O)/include/config/kernel.release
\tsh check
\tcat image > $(O)/arch/x86/boot/bzImage
.PHONY: bzImage
"""
FAKE_MERGE = """#!/bin/sh
# merge_config.sh -m -Q -O DIR FRAGMENT...
out=$4; shift 4; cat "$@" > "$out/.config"
"""


def fragment(text: str, name: str = "base") -> Fragment:
    return Fragment(name, Path(f"/x/{name}.config"), text)


@pytest.fixture
def fake_kernel(paths: Paths) -> Source:
    """A source whose Makefile does in milliseconds what kbuild does in minutes."""
    folder = paths.sources / "6.12/6.12.9-abc"
    (folder / "tree/scripts/kconfig").mkdir(parents=True)
    (folder / "tree/Makefile").write_text(FAKE_MAKEFILE)
    (folder / "tree/image").write_text("kernel\n")
    (folder / "tree/check").write_text("true\n")
    merge = folder / "tree/scripts/kconfig/merge_config.sh"
    merge.write_text(FAKE_MERGE)
    merge.chmod(0o755)
    tree.import_tree(folder / "tree")
    configs = paths.patches / "configs"
    (configs / "base.config").write_text("CONFIG_SMP=y\n")
    (configs / "x86.config").write_text("CONFIG_HPET_TIMER=y\n")
    (configs / "tracing.config").write_text("CONFIG_FTRACE=y\n")
    (configs / "lossy.config").write_text("CONFIG_GONE=y\n")
    return Source("6.12", SourceRef("linux-source-6.12", "6.12.9-1", "ab" * 32), "6.12.9", folder)


def need_no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have builds of a source that compiles nothing ask for neither compiler nor space."""
    monkeypatch.setattr(build.preflight, "require", lambda *_: None)
    monkeypatch.setattr(build.scratch, "need_space", lambda *_: None)
    monkeypatch.setattr(build, "compiler_version", lambda _: "gcc 12; ld 2.40")


@pytest.fixture
def planned(fake_kernel: Source, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Callable[..., build.Plan]:
    need_no_tools(monkeypatch)

    def plan(variant: str = "stock", fragments: tuple[str, ...] = ()) -> build.Plan:
        return build.plan(arch.X86_64, fake_kernel, variant, fragments, paths)

    return plan


def ship_patch(paths: Paths, old: str, new: str, file: str = "image", where: str = "hotplug/6.12") -> None:
    folder = paths.patches / where
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "series").write_text("0001.patch\n")
    (folder / "0001.patch").write_text(
        "From 1 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\n"
        f"Subject: [PATCH] change\n\n---\ndiff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n"
        f"@@ -1 +1 @@\n-{old}\n+{new}\n"
    )


def test_build_publishes_a_whole_artefact_once(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    job = planned()
    built = build.build(job, paths, said.append)
    folder = paths.kernels / job.key
    assert built.file == folder / "artifact.json"
    assert sorted(p.name for p in folder.iterdir()) == ["artifact.json", "build.log", "bzImage", "config"]
    assert built.image.read_text() == "kernel\n"
    assert built.release == f"6.12.9-stock-{job.key[:8]}"
    assert artifact.load(built.file) == artifact.load(folder) == built
    assert json.loads(built.file.read_text())["schema"] == "lpar-lab/kernel/1"
    again = build.build(job, paths, said.append)
    assert again == built
    assert "in the cache" in said[-1]
    assert list(paths.scratch.iterdir()) == []


def test_an_artefact_of_an_earlier_version_calls_the_line_base(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    built = build.build(planned(), paths, said.append)
    described = json.loads(built.file.read_text())
    built.file.write_text(json.dumps({"base": described.pop("line"), **described}))
    assert artifact.load(built.file) == built


def test_variants_share_the_tree_and_differ_in_everything_else(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    ship_patch(paths, "kernel", "fast kernel")
    stock = build.build(planned("stock"), paths, said.append)
    patched = build.build(planned("patched"), paths, said.append)
    assert (stock.image.read_text(), patched.image.read_text()) == ("kernel\n", "fast kernel\n")
    assert patched.patches == ["hotplug/0001.patch"]
    assert stock.release != patched.release


def test_the_first_patches_of_a_series_are_a_kernel_of_their_own(
    planned: Callable[..., build.Plan], paths: Paths, fake_kernel: Source
) -> None:
    ship_patch(paths, "kernel", "fast kernel")
    patches = series.load(paths.patches, "6.12", "patched")
    whole, one, none = (
        build.plan(arch.X86_64, fake_kernel, "patched", (), paths, patches=series.first(patches, number))
        for number in (None, 1, 0)
    )
    assert whole == one == planned("patched")
    assert (none.patches, none.key != whole.key) == ([], True)
    with pytest.raises(ToolError, match="the series has 1 patches, not 2") as caught:
        series.first(patches, 2)
    assert caught.value.code == ExitCode.USAGE


def test_a_series_is_applied_without_a_build(
    planned: Callable[..., build.Plan], paths: Paths, fake_kernel: Source, said: list[str]
) -> None:
    ship_patch(paths, "kernel", "fast kernel")
    build.apply(fake_kernel, series.load(paths.patches, "6.12", "patched"), said.append)
    assert (fake_kernel.tree / "image").read_text() == "fast kernel\n"
    assert not paths.kernels.exists()
    ship_patch(paths, "another kernel", "fast kernel")
    with pytest.raises(ToolError, match=r"0001.patch \(patch 1 of 1\) does not apply to 6.12") as caught:
        build.apply(fake_kernel, series.load(paths.patches, "6.12", "patched"), said.append)
    assert caught.value.code == ExitCode.INPUT


def test_an_experiment_is_built_beside_the_series(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    ship_patch(paths, "kernel", "fast kernel")
    ship_patch(paths, "kernel", "odd kernel", where="experiments/odd-1")
    built = [build.build(planned(variant), paths, said.append) for variant in ("odd-1", "patched", "stock")]
    assert [one.image.read_text() for one in built] == ["odd kernel\n", "fast kernel\n", "kernel\n"]
    assert built[0].release.startswith("6.12.9-odd-1-")
    assert (built[0].variant, built[0].patches) == ("odd-1", ["0001.patch"])


def test_a_lost_symbol_stops_the_build(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    with pytest.raises(ToolError, match=r"CONFIG_GONE \(lossy: wanted y, got n\)") as caught:
        build.build(planned(fragments=("lossy",)), paths, said.append)
    assert caught.value.code is ExitCode.INPUT
    assert not paths.kernels.exists()


def test_a_kernel_that_does_not_compile_leaves_no_artefact(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    ship_patch(paths, "true", "echo cpu.c:1: error: expected expression; false", "check")
    with pytest.raises(
        ToolError, match=r"make bzImage failed: cpu\.c:1: error: expected expression"
    ) as caught:
        build.build(planned("patched"), paths, said.append)
    assert caught.value.code is ExitCode.INPUT
    assert not paths.kernels.exists()
    assert list(paths.scratch.iterdir()) == []


def test_a_full_disk_is_told_from_a_broken_kernel(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str]
) -> None:
    ship_patch(paths, "true", "echo as: x.o: No space left on device; false", "check")
    with pytest.raises(ToolError, match="the disk is full") as caught:
        build.build(planned("patched"), paths, said.append)
    assert caught.value.code is ExitCode.ENVIRONMENT


def test_a_release_that_is_not_the_promised_one_is_refused(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUFFIX", "+")
    with pytest.raises(ToolError, match=r"kbuild calls this kernel .*\+, not") as caught:
        build.build(planned(), paths, said.append)
    assert caught.value.code is ExitCode.INPUT
    assert not paths.kernels.exists()


def test_an_interrupt_leaves_no_artefact(
    planned: Callable[..., build.Plan], paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build.Kbuild, "strip", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build.build(planned(), paths, said.append)
    assert not paths.kernels.exists()
    assert list(paths.scratch.iterdir()) == []


KEY_INPUTS = {
    "source_sha256": "00",
    "patches": [Patch("a", Path("a"), b"A"), Patch("b", Path("b"), b"B")],
    "fragments": [fragment("CONFIG_A=y\n")],
    "arch": "ppc64le",
    "compiler": "gcc 12",
    "variant": "patched",
}


def key(**changes: object) -> str:
    return artifact.cache_key(**(KEY_INPUTS | changes))  # type: ignore[arg-type]


def test_cache_key_depends_on_every_input_and_on_nothing_else() -> None:
    a, b = KEY_INPUTS["patches"]  # type: ignore[misc]
    changed = [
        key(source_sha256="01"),
        key(patches=[b, a]),
        key(patches=[a]),
        key(patches=[a, replace(b, content=b"b")]),
        key(fragments=[fragment("CONFIG_A=n\n")]),
        key(arch="x86_64"),
        key(compiler="gcc 14"),
        key(variant="stock"),
    ]
    assert len({key(), *changed}) == len(changed) + 1
    assert key(patches=[replace(a, name="renamed", path=Path("/elsewhere")), b]) == key()


def test_cache_key_does_not_depend_on_messages() -> None:
    first = Patch("a", Path("a"), b"Subject: A\n\nWhy.\n---\n\ndiff --git a/a b/a\n+x\n")
    other = replace(first, content=first.content.replace(b"Why.", b"Because."))
    assert key(patches=[first]) == key(patches=[other])
    assert key(patches=[first]) != key(patches=[replace(other, content=other.content.replace(b"+x", b"+y"))])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "other"}', '{"schema": "lpar-lab/kernel/1"}'])
def test_a_foreign_artefact_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "artifact.json"
    file.write_text(text)
    with pytest.raises(ToolError) as caught:
        artifact.load(file)
    assert caught.value.code is ExitCode.INPUT


WRITTEN_BY_OTHERS = {
    "schema": "lpar-lab/kernel/1",
    "arch": "ppc64le",
    "line": "6.12",
    "variant": "site",
    "release": "6.12.0-55.site1.ppc64le",
    "image": "vmlinux",
    "sha256": "ab" * 32,
    "config": "config",
    "source": {"package": "kernel", "version": "6.12.0-55", "sha256": "cd" * 32},
    "patches": [],
    "fragments": [],
    "built": "2026-11-20T08:00:00Z",
}
PACKAGE = {
    "format": "rpm",
    "name": "kernel-core",
    "file": "kernel-core.rpm",
    "sha256": "ef" * 32,
    "arch": "ppc64le",
    "installed_bytes": 1,
}


def test_another_build_system_may_write_the_artefact(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_text("kernel\n")
    file = tmp_path / "artifact.json"
    file.write_text(json.dumps(WRITTEN_BY_OTHERS | {"packages": [PACKAGE], "our own": 1}))
    read = artifact.load(file)
    assert (read.release, read.image, read.modules) == ("6.12.0-55.site1.ppc64le", tmp_path / "vmlinux", "")
    assert [package.name for package in read.packages] == ["kernel-core"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "AB"}, "sha256: 'AB' does not match"),
        ({"arch": "ppc64"}, "arch: 'ppc64' is not one of"),
        ({"line": None}, "line: None is not of type 'string'"),
        ({"patches": "0001.patch"}, "patches: '0001.patch' is not of type 'array'"),
        ({"source": {"package": "kernel"}}, "source: 'version' is a required property"),
        ({"packages": [PACKAGE | {"file": "/srv/x.rpm"}]}, r"packages\.0\.file: '/srv/x.rpm' does not match"),
        ({"packages": [PACKAGE | {"format": "zip"}]}, r"packages\.0\.format: 'zip' is not one of"),
        ({"release": None}, "release: None is not of type 'string'"),
    ],
)
def test_what_is_wrong_with_an_artefact_is_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    file = tmp_path / "artifact.json"
    file.write_text(json.dumps(WRITTEN_BY_OTHERS | change))
    with pytest.raises(ToolError, match=f"^{file} is not a kernel artefact: {message}") as caught:
        artifact.load(file)
    assert caught.value.code is ExitCode.INPUT
    assert "\n" not in str(caught.value)


def test_fragments_parse_sets_and_unsets() -> None:
    text = '# a comment\nCONFIG_A=y\nCONFIG_B="x y"\n# CONFIG_C is not set\nCONFIG_A=m\n'
    assert config.parse(text) == {"CONFIG_A": "m", "CONFIG_B": '"x y"', "CONFIG_C": "n"}


def test_survival_compares_values_and_later_fragments_win() -> None:
    fragments = [
        fragment("CONFIG_A=y\nCONFIG_NR_CPUS=2048\n# CONFIG_OFF is not set\nCONFIG_ALSO_OFF=n\n"),
        fragment("# CONFIG_A is not set\nCONFIG_NEW=y\n", "debug"),
    ]
    assert config.lost_symbols(fragments, "CONFIG_NR_CPUS=2048\nCONFIG_NEW=y\n") == []
    lost = config.lost_symbols(fragments, "CONFIG_A=y\nCONFIG_NR_CPUS=512\nCONFIG_OFF=y\n")
    assert [str(item) for item in lost] == [
        "CONFIG_A (debug: wanted n, got y)",
        "CONFIG_NR_CPUS (base: wanted 2048, got 512)",
        "CONFIG_OFF (base: wanted n, got y)",
        "CONFIG_NEW (debug: wanted y, got n)",
    ]


def test_fragments_are_loaded_once_and_unknown_ones_named(tmp_path: Path) -> None:
    write_line(tmp_path, "6.12")
    configs = tmp_path / "configs"
    configs.mkdir()
    for name in ("base", "pseries", "tracing", "debug"):
        (configs / f"{name}.config").write_text("")
    names = [f.name for f in config.load(tmp_path, arch.PPC64LE, "6.12", ["debug", "base", "debug"])]
    assert names == ["base", "pseries", "tracing", "debug"]
    with pytest.raises(ToolError, match="there are: base, debug, pseries, tracing"):
        config.load(tmp_path, arch.PPC64LE, "6.12", ["kasan"])


def test_a_fragment_of_one_line_follows_another_on_that_line_only(tmp_path: Path) -> None:
    write_line(tmp_path, "6.12", {"debug": ["debug-6.12"]})
    write_line(tmp_path, "7.3", {"base": ["base-7.3"]})
    configs = tmp_path / "configs"
    configs.mkdir()
    for name in ("base", "base-7.3", "pseries", "tracing", "debug", "debug-6.12"):
        (configs / f"{name}.config").write_text("")
    names = {
        line: [f.name for f in config.load(tmp_path, arch.PPC64LE, line, ["debug"])]
        for line in ("6.12", "7.3")
    }
    assert names == {
        "6.12": ["base", "pseries", "tracing", "debug", "debug-6.12"],
        "7.3": ["base", "base-7.3", "pseries", "tracing", "debug"],
    }


def test_kernel_version_is_read_as_make_prints_it(tmp_path: Path) -> None:
    makefile = tmp_path / "Makefile"
    makefile.write_text("VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 0\nEXTRAVERSION = -rc3\nNAME = X\n")
    assert source.read_kernel_version(makefile) == "7.3.0-rc3"
    makefile.write_text("all:\n")
    with pytest.raises(ToolError, match="not a kernel's Makefile"):
        source.read_kernel_version(makefile)
