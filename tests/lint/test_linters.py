"""Every linter, wired once: a finding is a failed test that shows the linter's own output."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

BIN = Path(sys.executable).parent


def tracked(*patterns: str) -> list[str]:
    """Files git tracks or would track, by pattern, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def shell_scripts() -> list[str]:
    """Every file that a shell runs, by its ending or its first line."""
    scripts = []
    for name in tracked():
        with (ROOT / name).open("rb") as file:
            first = file.readline(80)
        if name.endswith(".sh") or (first.startswith(b"#!") and b"sh" in first.split(b"/")[-1].split()[-1]):
            scripts.append(name)
    return scripts


LINTERS = {
    "ruff": lambda: ["ruff", "check", "."],
    "ruff-format": lambda: ["ruff", "format", "--check", "."],
    "mypy": lambda: ["mypy"],
    "yamllint": lambda: ["yamllint", "--strict", *tracked("*.yml", "*.yaml")],
    "codespell": lambda: ["codespell"],
    "shellcheck": lambda: ["shellcheck", "--severity=style", *shell_scripts()],
}


def run(arguments: list[str], cwd: Path = ROOT) -> None:
    """Run a linter of this environment and show what it found when it found something."""
    program = BIN / arguments[0]
    assert shutil.which(str(program)), f"{arguments[0]} is not in the environment; run tools/setup/setup.sh"
    done = subprocess.run(
        [str(program), *arguments[1:]], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments[:3])}\n{done.stdout}{done.stderr}"


#: These take a second for all files.
QUICK = ("ruff", "ruff-format")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.linter) for name in LINTERS]
)
def test_linter(name: str) -> None:
    run(LINTERS[name]())


def test_linters_are_given_files() -> None:
    """A linter that is handed nothing passes; make sure that it is handed what it is for."""
    assert "tools/setup/setup.sh" in shell_scripts()
    assert ".ci/run" in shell_scripts()
    assert tracked("*.yml")


#: Tests of ansible-test for collections. What is not here is done by a linter above (pep8, pylint, shellcheck
#: and yamllint), or is for the interpreters of hosts, to which no module of ours travels (compile, import).
SANITY = (
    "action-plugin-docs",
    "changelog",
    "empty-init",
    "ignores",
    "line-endings",
    "no-illegal-filenames",
    "no-smart-quotes",
    "runtime-metadata",
    "shebang",
    "symlinks",
    "use-argspec-type-path",
    "validate-modules",
)


@pytest.mark.linter
@pytest.mark.timeout(300)
def test_the_collection_is_sane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its environments get their pip from here; from the network it would come without a hash.
    cache = tmp_path / ".ansible/test/cache"
    cache.mkdir(parents=True)
    (cache / "get_pip_24_2.py").write_text("import ensurepip\n\nensurepip.bootstrap()\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    run(["ansible-galaxy", "collection", "build", str(ROOT / "ansible"), "--output-path", str(tmp_path)])
    (archive,) = tmp_path.glob("*.tar.gz")
    run(["ansible-galaxy", "collection", "install", "--offline", str(archive), "-p", str(tmp_path)])
    words = [word for name in SANITY for word in ("--test", name)]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    run(
        ["ansible-test", "sanity", "--python", version, *words],
        tmp_path / "ansible_collections/smt/hotplug",
    )


@pytest.mark.linter
@pytest.mark.timeout(900)
def test_ansible_lint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(ROOT / "ansible/playbooks/collections"))
    run(["ansible-lint", "--offline", "--profile", "production", "--strict"])
