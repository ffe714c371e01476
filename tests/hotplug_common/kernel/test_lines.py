from pathlib import Path

import pytest

from hotplug_common.debian import Suite
from hotplug_common.kernel import lines
from hotplug_host.errors import ExitCode, ToolError
from tests.samples.kernellines import write_branch, write_line


def test_a_line_is_a_data_file(tmp_path: Path) -> None:
    for name in ("10.1", "6.12", "7.3"):
        write_line(tmp_path, name, {"base": [f"base-{name}"]})
    assert lines.names(tmp_path) == ("6.12", "7.3", "10.1")
    line = lines.load(tmp_path, "7.3")
    assert (line.package, line.topics) == ("linux-source-7.3", ("hotplug",))
    assert line.suites == (Suite("Debian", "trixie"),)
    assert line.fragments == {"base": ("base-7.3",)}


def test_a_branch_is_its_line_without_a_source(tmp_path: Path) -> None:
    write_line(tmp_path, "6.12", {"base": ["more"]})
    write_branch(tmp_path, "6.12.0", "6.12")
    assert (lines.names(tmp_path), lines.branches(tmp_path)) == (("6.12",), ("6.12.0",))
    line, branch = (lines.load(tmp_path, name) for name in ("6.12", "6.12.0"))
    assert (branch.name, branch.of, branch.package, branch.suites) == ("6.12.0", "6.12", "", ())
    assert (branch.topics, branch.fragments) == (line.topics, line.fragments)
    write_branch(tmp_path, "7.3.0", "7.3")
    with pytest.raises(ToolError, match=r"'7\.3'; choose one of: 6\.12, 6\.12\.0, 7\.3\.0"):
        lines.load(tmp_path, "7.3.0")


@pytest.mark.parametrize("name", ["7.4", "", "../lines/7.3"])
def test_an_unknown_line_is_refused_with_those_there_are(tmp_path: Path, name: str) -> None:
    write_line(tmp_path, "7.3")
    with pytest.raises(ToolError, match=r"choose one of: 7\.3") as caught:
        lines.load(tmp_path, name)
    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize("text", ["", "package = 1", 'package = "x"\nsuites = [1]\ntopics = []', "[", "\xff"])
def test_a_data_file_that_does_not_fit_is_named(tmp_path: Path, text: str) -> None:
    write_line(tmp_path, "7.3")
    (tmp_path / "lines/7.3.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ToolError, match=r"cannot use .*lines/7\.3\.toml") as caught:
        lines.load(tmp_path, "7.3")
    assert caught.value.code is ExitCode.INPUT


def test_a_record_of_an_earlier_version_calls_the_line_base() -> None:
    assert lines.named_in({"line": "7.3"}) == lines.named_in({"base": "7.3"}) == "7.3"
    with pytest.raises(KeyError, match="line"):
        lines.named_in({})
