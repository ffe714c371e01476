"""Whole runs of build.yml, with a stand-in for lpar-lab."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ansible.test_ab import assert_fails
from tests.fakes.fake_lpar import FakeLpar, PlayResult

# Modules are started, each in a Python of its own.
pytestmark = pytest.mark.timeout(300)

RELEASE = "6.12-patched"
#: Does what lpar-lab does with a kernel that was built before, and notes what it was called with.
LPAR_LAB = """#!{python}
import json, shutil, sys
from pathlib import Path
work = Path({work!r})
with (work / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "build-kernel":
    if (work / "built").exists():
        print("lpar-lab: patched kernel: {release} is in the cache", file=sys.stderr)
    (work / "built").touch()
    print({artifact!r})
else:
    options = dict(word.split("=") for word in sys.argv[3:])
    shutil.copytree({packed!r}, options["--output-dir"])
"""


def lpar_lab(host: FakeLpar, release: str, kind: str) -> Path:
    """Make the stand-in, with a package of this kind."""
    tool = host.work / "lpar-lab"
    artifact, packed = host.artifact("patched"), host.packed("patched", kind).parent
    names = {"work": str(host.work), "artifact": str(artifact), "packed": str(packed), "release": release}
    tool.write_text(LPAR_LAB.format(python=sys.executable, **names))
    tool.chmod(0o755)
    return tool


@pytest.fixture
def builder(host: FakeLpar) -> FakeLpar:
    """A build host whose lpar-lab has everything ready."""
    tool = lpar_lab(host, RELEASE, "rpm")
    host.variables = {"build_tool": str(tool), "build_output_dir": str(host.work / "kernels")}
    return host


def build(host: FakeLpar, *arguments: str, **variables: Any) -> PlayResult:
    return host.play("build.yml", *arguments, build_format="rpm", **variables)


def calls(host: FakeLpar) -> list[list[str]]:
    log = host.work / "calls"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.slow
def test_a_kernel_is_built_packed_fetched_and_not_again(builder: FakeLpar) -> None:
    folder = builder.work / "kernels" / RELEASE
    result = build(builder, "--check")

    assert result.code == 0, result.output
    assert "would build patched 6.12 for ppc64le" in result.flat
    assert (calls(builder), folder.exists()) == ([], False)

    result = build(builder, build_line=7.3, build_fragments=["debug"], build_jobs=2)

    assert result.code == 0, result.output
    (built, packed) = calls(builder)
    assert built == [
        *("build-kernel", "--arch", "ppc64le", "--line", "7.3", "--variant", "patched"),
        *("--print-artifact", "--fragment=debug", "--jobs", "2"),
    ]
    assert packed[2] == "--format=rpm"
    assert not Path(packed[3].partition("=")[2]).parent.exists(), "nothing stays on the build host"
    assert {path.name for path in folder.iterdir()} == {
        *("artifact.json", "config", "vmlinux", f"linux-hotplug-acceleration-{RELEASE}.pkg")
    }
    assert f"deploy it with -e deploy_artifact={folder}/artifact.json" in result.flat

    result = build(builder)

    assert result.code == 0, result.output
    assert result.changed("localhost") == 0
    assert [call[0] for call in calls(builder)] == ["build-kernel", "package", "build-kernel"]


@pytest.mark.slow
def test_what_arrived_damaged_is_told(builder: FakeLpar) -> None:
    packed = builder.work / "packed/patched"
    (packed / "vmlinux").write_text("damaged")

    assert_fails(build(builder), "vmlinux", "failed_when_result")


@pytest.mark.slow
def test_where_it_goes_is_an_absolute_path(builder: FakeLpar) -> None:
    assert_fails(
        build(builder, build_output_dir="kernels"), "build_output_dir is 'kernels'; give an absolute"
    )
