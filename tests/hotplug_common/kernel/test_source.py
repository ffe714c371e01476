import hashlib
import tarfile
from pathlib import Path

import pytest

from hotplug_common import debian
from hotplug_common.debian import Package, Suite
from hotplug_common.kernel import source
from hotplug_common.paths import Paths
from hotplug_common.process import Finished
from hotplug_host.errors import ExitCode, ToolError

# What `apt-get indextargets` says on a machine with third-party archives and two Debian ones.
TARGETS = """Packages\tGoogle\tcloud\thttps://packages.example.org/apt/
DEP-11\tDebian\tDebian\tmirror+file:/ignored/
Packages\tDebian\tDebian\thttps://mirror.example.org/debian/
Packages\tDebian\tDebian\thttps://second.example.org/debian/
Packages\tDebian\tDebian-Security\thttps://mirror.example.org/debian-security/
"""


def test_mirrors_are_debians_own_and_the_first_of_each_label() -> None:
    assert debian.parse_indextargets(TARGETS) == {
        "Debian": "https://mirror.example.org/debian/",
        "Debian-Security": "https://mirror.example.org/debian-security/",
    }
    assert debian.parse_indextargets("garbage\n") == {}


def test_source_lines_skip_archives_without_a_mirror() -> None:
    suites = [Suite(debian.MAIN, "trixie"), Suite(debian.SECURITY, "trixie-security")]
    lines = debian.source_lines(suites, {"Debian": "https://mirror.example.org/debian/"})
    assert lines == [f"deb [signed-by={debian.KEYRING}] https://mirror.example.org/debian/ trixie main"]


@pytest.mark.parametrize(
    ("said", "checks"), [("", True), ("check='true'\n", True), ("check='false'\n", False)]
)
def test_whether_a_mirror_may_be_old_is_up_to_the_machine(
    said: str, checks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian.process, "run", lambda _: Finished(0, said))
    assert debian.checks_age() is checks


def options_of(apt: debian.Apt) -> dict[str, str]:
    return dict(word.split("=", 1) for word in apt.options() if word != "-o")


def test_packages_of_another_architecture_are_asked_for(tmp_path: Path) -> None:
    assert options_of(debian.Apt(tmp_path, [], "ppc64el"))["APT::Architecture"] == "ppc64el"
    assert "APT::Architecture" not in options_of(debian.Apt(tmp_path, []))


def test_apt_is_kept_away_from_the_machines_own_state(tmp_path: Path) -> None:
    settings = options_of(debian.Apt(tmp_path, []))
    for key in (
        "Dir::State",
        "Dir::State::Lists",
        "Dir::State::status",
        "Dir::Cache",
        "Dir::Etc::sourcelist",
    ):
        assert settings[key].startswith(str(tmp_path))
    assert settings["Dir::Etc::sourceparts"] == "/dev/null"


def test_a_failed_update_names_its_first_reason() -> None:
    text = (
        "Err:1 x\nW: Failed to fetch x  Could not resolve 'mirror'\nE: Some index files failed to download.\n"
    )
    assert debian.first_failure(text) == "W: Failed to fetch x  Could not resolve 'mirror'"
    assert debian.first_failure("") == "no output"


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    folder = tmp_path / "linux-6.12.9"
    folder.mkdir()
    (folder / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 9\nEXTRAVERSION =\n")
    path = tmp_path / "linux-6.12.9.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, "linux-6.12.9")
    return path


def settings(tarball: Path, digest: str | None = None) -> dict[str, str]:
    right = hashlib.sha256(tarball.read_bytes()).hexdigest()
    return {source.URL_SETTING: tarball.as_uri(), source.SHA_SETTING: digest or right}


@pytest.fixture(autouse=True)
def plenty_of_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.scratch, "need_space", lambda *_: None)


def test_a_tarball_by_url_becomes_a_source_and_is_fetched_once(
    tarball: Path, paths: Paths, said: list[str]
) -> None:
    env = settings(tarball)
    first = source.obtain("6.12", paths, said.append, env)
    assert (first.kernel_version, first.ref.version) == ("6.12.9", "6.12.9")
    assert (first.tree / "Makefile").exists()
    tarball.unlink()
    assert source.obtain("6.12", paths, said.append, env) == first
    assert list(paths.scratch.iterdir()) == []


def test_a_wrong_digest_is_refused_and_leaves_nothing(tarball: Path, paths: Paths, said: list[str]) -> None:
    with pytest.raises(ToolError, match="has SHA-256") as caught:
        source.obtain("6.12", paths, said.append, settings(tarball, "0" * 64))
    assert caught.value.code is ExitCode.INPUT
    assert source.cached("6.12", paths) == []
    assert list(paths.scratch.iterdir()) == []


def test_a_tarball_of_another_line_is_refused(tarball: Path, paths: Paths, said: list[str]) -> None:
    with pytest.raises(ToolError, match=r"is Linux 6\.12\.9, not of line 7\.3"):
        source.obtain("7.3", paths, said.append, settings(tarball))


def test_url_faults(tarball: Path, paths: Paths, said: list[str]) -> None:
    with pytest.raises(ToolError, match="go together") as caught:
        source.obtain("6.12", paths, said.append, {source.URL_SETTING: "file:///x"})
    assert caught.value.code is ExitCode.USAGE
    gone = settings(tarball)
    tarball.unlink()
    with pytest.raises(ToolError, match="cannot read file:") as caught:
        source.obtain("6.12", paths, said.append, gone)
    assert caught.value.code is ExitCode.ENVIRONMENT
    with pytest.raises(ToolError, match="unknown kernel line"):
        source.obtain("5.4", paths, said.append, {})


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "mirrors", lambda: {"Debian": "https://mirror.example.org/debian/"})
    monkeypatch.setattr(debian.Apt, "refresh", lambda *_: False)


def test_without_network_the_cached_source_is_used_and_said_so(
    tarball: Path, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offline(monkeypatch)
    with pytest.raises(ToolError, match=r"no network and no cached source of line 6\.12") as caught:
        source.obtain("6.12", paths, said.append, {})
    assert caught.value.code is ExitCode.ENVIRONMENT
    have = source.obtain("6.12", paths, said.append, settings(tarball))
    record = have.folder / source.RECORD
    text = record.read_text().replace("linux-6.12.9.tar.gz", "linux-source-6.12")
    record.write_text(text.replace('"line"', '"base"'))  # as an earlier version wrote it
    again = source.obtain("6.12", paths, said.append, {})
    assert (again.folder, again.line) == (have.folder, "6.12")
    assert any("using the cached source linux-source-6.12 6.12.9" in line for line in said)


def test_the_candidate_decides_which_cached_source_is_current(
    tarball: Path, paths: Paths, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    have = source.obtain("6.12", paths, said.append, settings(tarball))
    record = have.folder / source.RECORD
    record.write_text(record.read_text().replace("linux-6.12.9.tar.gz", "linux-source-6.12"))
    offline(monkeypatch)
    monkeypatch.setattr(debian.Apt, "refresh", lambda *_: True)
    found: list[Package | None] = [Package("linux-source-6.12", "6.12.9-1", have.ref.sha256), None]
    monkeypatch.setattr(debian.Apt, "candidate", lambda *_: found.pop(0))
    assert source.obtain("6.12", paths, said.append, {}).folder == have.folder
    with pytest.raises(ToolError, match=r"the archive has no linux-source-6\.12"):
        source.obtain("6.12", paths, said.append, {})
